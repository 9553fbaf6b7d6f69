package vcsim_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// disk returns the identifiers of a VM's only disk.
func (c *client) disk(t testing.TB, ref types.ManagedObjectReference) (uuid, contentID string) {
	t.Helper()
	var vm mo.VirtualMachine
	ok(t, c.RetrieveOne(c.ctx, ref, []string{"config.hardware.device"}, &vm))
	disks := object.VirtualDeviceList(vm.Config.Hardware.Device).SelectByType((*types.VirtualDisk)(nil))
	if len(disks) != 1 {
		t.Fatalf("%v has %d disks", ref, len(disks))
	}
	b := disks[0].GetVirtualDevice().Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	if b.Uuid == "" || b.ContentId == "" {
		t.Errorf("the disk of %v has uuid %q and contentId %q", ref, b.Uuid, b.ContentId)
	}
	return b.Uuid, b.ContentId
}

func TestCloneHasANewDiskWithTheSameContents(t *testing.T) {
	inABubble(t, vcsim.Config{Templates: []string{template, "other"}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		uuid, content := c.disk(t, c.template.Reference())
		if otherUUID, otherContent := c.disk(t, theVM(t, v, "other").Ref); otherUUID == uuid || otherContent == content {
			t.Errorf("two templates have the same uuid %s or contentId %s", uuid, content)
		}
		seen := map[string]bool{uuid: true}
		for range 2 {
			cloned, same := c.disk(t, c.clone(t, "vm").Reference())
			if seen[cloned] || same != content {
				t.Errorf("the clone's uuid %s and contentId %s, the source's %s and %s", cloned, same, uuid, content)
			}
			seen[cloned] = true
			ok(t, v.Destroy("vm"))
		}
	})
}

func TestPowerOnChangesTheDiskContents(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := c.template.Reference()
		uuid, content := c.disk(t, ref)
		ok(t, v.ToVM(template))
		if _, same := c.disk(t, ref); same != content {
			t.Error("the conversion to a VM changed the contentId")
		}
		ok(t, v.PowerOn(template))
		ok(t, v.PowerOff(template))
		ok(t, v.ToTemplate(template))
		if same, other := c.disk(t, ref); same != uuid || other == content {
			t.Errorf("after a power-on: uuid %s, contentId %s", same, other)
		}
	})
}

func TestRepublishChangesTheDiskContents(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := c.template.Reference()
		uuid, content := c.disk(t, ref)
		version := c.changeVersion(t, ref)
		w := c.watch(t, tree(c.ServiceContent.RootFolder, "config.hardware.device"))
		w.next(t, 1)
		ok(t, v.Republish(template))
		if got := w.next(t, 5); len(got) != 1 {
			t.Errorf("the stream reported %v", got)
		}
		if same, other := c.disk(t, ref); same != uuid || other == content {
			t.Errorf("uuid %s, contentId %s", same, other)
		}
		if c.changeVersion(t, ref) == version {
			t.Error("the changeVersion stays")
		}
		addVM(t, v, "/DC0/vm", "on")
		ok(t, v.PowerOn("on"))
		wantFault[*types.InvalidPowerState](t, v.Republish("on"))
	})
}

func TestOperatorsCloneHasANewInstanceUUID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		makeFolder(t, v, "/DC0/vm/target")
		addVM(t, v, "/DC0/vm", "vm")
		ok(t, v.SetExtraConfig("vm", "stamp", "mine"))
		ok(t, v.PowerOn("vm"))
		ok(t, v.CloneVM("vm", "/DC0/vm/target", "copy"))
		ok(t, v.CloneVM(template, "/DC0/vm/target", "fresh"))
		source, copied := theVM(t, v, "vm"), theVM(t, v, "copy")
		if copied.Path != "/DC0/vm/target/copy" || copied.ExtraConfig["stamp"] != "mine" || copied.Power != off ||
			copied.InstanceUUID == source.InstanceUUID {
			t.Errorf("got %+v of %+v", copied, source)
		}
		wantFault[*types.DuplicateName](t, v.CloneVM("vm", "/DC0/vm/target", "copy"))
	})
}

// disksOf returns the disks of a VM in the order of their attachment.
func disksOf(t testing.TB, v *vcsim.VCenter, where string) []vcsim.Disk {
	t.Helper()
	d, err := v.Details(where)
	ok(t, err)
	return d.Disks
}

func TestSnapshotsCreateDeltasThatTheirRemovalMerges(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		addVM(t, v, "/DC0/vm", "vm")
		ref := theVM(t, v, "vm").Ref
		uuid, _ := c.disk(t, ref)
		base := disksOf(t, v, "vm")[0]
		for range 2 {
			version := c.changeVersion(t, ref)
			_, err := v.AddSnapshot("vm", "backup")
			ok(t, err)
			if c.changeVersion(t, ref) == version {
				t.Error("a snapshot does not change the changeVersion")
			}
		}
		got := disksOf(t, v, "vm")[0]
		if stem := strings.TrimSuffix(base.File, ".vmdk"); got.File != stem+"-000002.vmdk" || got.Parent != stem+"-000001.vmdk" {
			t.Errorf("got %+v after %+v", got, base)
		}
		if same, _ := c.disk(t, ref); same != uuid {
			t.Errorf("the delta's uuid is %s, its base's %s", same, uuid)
		}
		ok(t, v.RemoveSnapshots("vm"))
		if got := disksOf(t, v, "vm")[0]; got.File != base.File || got.Parent != "" {
			t.Errorf("got %+v, want %+v", got, base)
		}
	})
}

func TestDetachFailsForADiskInASnapshot(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		for _, name := range []string{"vm", "one", "two"} {
			addVM(t, v, "/DC0/vm", name)
		}
		before, err := v.AttachDisk("one", "vm")
		ok(t, err)
		_, err = v.AddSnapshot("vm", "backup")
		ok(t, err)
		after, err := v.AttachDisk("two", "vm")
		ok(t, err)
		detach := func(key int32) error {
			return v.Reconfigure("vm", types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
				&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: key}}}}})
		}
		wantFault[*types.InvalidDeviceSpec](t, detach(before))
		ok(t, detach(after))
		ok(t, v.RemoveSnapshots("vm"))
		ok(t, detach(before))
		if n := len(disksOf(t, v, "vm")); n != 1 {
			t.Errorf("%d disks", n)
		}
	})
}

func TestStorageVMotionMovesOneDiskWithItsDeltas(t *testing.T) {
	inABubble(t, vcsim.Config{Datastores: 2}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		for _, name := range []string{"vm", "one"} {
			addVM(t, v, "/DC0/vm", name)
		}
		_, err := v.AttachDisk("one", "vm")
		ok(t, err)
		_, err = v.AddSnapshot("vm", "backup")
		ok(t, err)
		was := disksOf(t, v, "vm")
		ok(t, v.MoveDisk("vm", was[0].Key, "/DC0/datastore/LocalDS_1"))
		got := disksOf(t, v, "vm")
		if got[0].Key != was[0].Key || got[0].Datastore != "/DC0/datastore/LocalDS_1" || !strings.HasPrefix(got[0].File, "[LocalDS_1] vm/") || !strings.HasPrefix(got[0].Parent, "[LocalDS_1] vm/") {
			t.Errorf("%+v", got[0])
		}
		if got[1].File != was[1].File || got[1].Parent != was[1].Parent {
			t.Errorf("%+v", got[1])
		}
		ok(t, v.RemoveSnapshots("vm"))
		if now := disksOf(t, v, "vm")[0]; now.File != got[0].Parent || now.Parent != "" {
			t.Errorf("%+v", now)
		}
		var vm mo.VirtualMachine
		ok(t, c.RetrieveOne(c.ctx, allNamed(v.VMs(), "vm")[0].Ref, []string{"config.hardware.device"}, &vm))
		moved := object.VirtualDeviceList(vm.Config.Hardware.Device).FindByKey(was[0].Key).(*types.VirtualDisk)
		moved.CapacityInBytes, moved.CapacityInKB = 2*moved.CapacityInBytes, 2*moved.CapacityInKB
		ok(t, v.Reconfigure("vm", types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
			&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: moved}}}))
	})
}
