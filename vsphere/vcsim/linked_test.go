package vcsim_test

import (
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const child = string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)

func TestLinkedCloneNeedsASnapshotAndSharesItsDisk(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		linked := func(name string, snapshot *types.ManagedObjectReference) error {
			return c.cloneAs(t, name, func(spec *types.VirtualMachineCloneSpec) { spec.Location.DiskMoveType, spec.Snapshot = child, snapshot })
		}
		wantFault[*types.InvalidArgument](t, linked("vm", nil))

		snapshot, err := v.AddSnapshot(template, "base")
		ok(t, err)
		var props mo.VirtualMachine
		ok(t, c.RetrieveOne(c.ctx, c.template.Reference(), []string{"snapshot", "rootSnapshot", "config.template"}, &props))
		if props.Snapshot == nil || *props.Snapshot.CurrentSnapshot != snapshot || props.Snapshot.RootSnapshotList[0].Name != "base" || !props.Config.Template {
			t.Errorf("got the template %+v", props)
		}
		ok(t, linked("vm", &snapshot))
		source, got := details(t, v, template), details(t, v, "vm")
		if len(got.Disks) != 1 || got.Disks[0].Parent != source.Disks[0].Parent || got.Disks[0].File == source.Disks[0].File {
			t.Errorf("got the disks %+v, the template's are %+v", got.Disks, source.Disks)
		}
		ok(t, v.PowerOn("vm"))
		if again := details(t, v, "vm"); again.Disks[0].Parent != got.Disks[0].Parent {
			t.Errorf("after the power-on, got the disks %+v", again.Disks)
		}
		ok(t, v.Destroy("vm"))

		ok(t, v.RemoveSnapshots(template))
		wantFault[*types.ManagedObjectNotFound](t, linked("vm", &snapshot))
	})
}

func TestFullCloneOfASnapshotHasTheConfigurationOfThatTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Templates: []string{template, "other"}})
		c := loginTo(t, v)
		snapshot, err := v.AddSnapshot(template, "base")
		ok(t, err)
		foreign, err := v.AddSnapshot("other", "base")
		ok(t, err)
		ok(t, v.ToVM(template))
		ok(t, v.Reconfigure(template, types.VirtualMachineConfigSpec{NumCPUs: 7}))
		ok(t, v.ToTemplate(template))
		from := func(name string, snapshot *types.ManagedObjectReference) error {
			return c.cloneAs(t, name, func(spec *types.VirtualMachineCloneSpec) {
				spec.Snapshot = snapshot
				spec.Location.DiskMoveType = string(types.VirtualMachineRelocateDiskMoveOptionsMoveAllDiskBackingsAndDisallowSharing)
			})
		}
		ok(t, from("then", &snapshot))
		ok(t, from("now", nil))
		if then, now := details(t, v, "then"), details(t, v, "now"); then.CPUs != 1 || now.CPUs != 7 || then.Disks[0].Parent != "" {
			t.Errorf("from the snapshot: %+v; from the source: %+v", then, now)
		}
		wantFault[*types.InvalidArgument](t, from("vm", &foreign))
	})
}

func TestSnapshotFailsForATemplate(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		task, err := c.template.CreateSnapshot(c.ctx, "s", "", false, false)
		ok(t, err)
		wantFault[*types.NotSupported](t, task.Wait(c.ctx))
		addVM(t, v, "/DC0/vm", "vm")
		vm := object.NewVirtualMachine(c.Client.Client, theVM(t, v, "vm").Ref)
		task, err = vm.CreateSnapshot(c.ctx, "s", "", false, false)
		ok(t, err)
		ok(t, task.Wait(c.ctx))
		ref, err := vm.FindSnapshot(c.ctx, "s")
		ok(t, err)
		if ref.Type != "VirtualMachineSnapshot" {
			t.Errorf("the snapshot is %v", ref)
		}
	})
}
