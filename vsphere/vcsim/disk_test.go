package vcsim_test

import (
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// disk returns what identifies the only disk of a VM.
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
		t.Errorf("the disk of %v is %q with %q", ref, b.Uuid, b.ContentId)
	}
	return b.Uuid, b.ContentId
}

func TestACloneHasANewDiskWithItsSourcesContents(t *testing.T) {
	inABubble(t, vcsim.Config{Templates: []string{template, "other"}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		uuid, content := c.disk(t, c.template.Reference())
		if otherUUID, otherContent := c.disk(t, theVM(t, v, "other").Ref); otherUUID == uuid || otherContent == content {
			t.Errorf("two templates have the disk %s with %s", uuid, content)
		}
		seen := map[string]bool{uuid: true}
		for range 2 {
			cloned, same := c.disk(t, c.clone(t, "vm").Reference())
			if seen[cloned] || same != content {
				t.Errorf("the clone's disk is %s with %s, its source's %s with %s", cloned, same, uuid, content)
			}
			seen[cloned] = true
			ok(t, v.Destroy("vm"))
		}
	})
}

func TestADiskIsWrittenToAsItsVMRuns(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := c.template.Reference()
		uuid, content := c.disk(t, ref)
		ok(t, v.ToVM(template))
		if _, same := c.disk(t, ref); same != content {
			t.Error("what was only made a VM has other contents")
		}
		ok(t, v.PowerOn(template))
		ok(t, v.PowerOff(template))
		ok(t, v.ToTemplate(template))
		if same, other := c.disk(t, ref); same != uuid || other == content {
			t.Errorf("after a power-on the disk is %s with %s", same, other)
		}
	})
}

func TestARepublishedTemplateHasOtherContents(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := c.template.Reference()
		uuid, content := c.disk(t, ref)
		version := c.changeVersion(t, ref)
		w := c.watch(t, tree(c.ServiceContent.RootFolder, "config.hardware.device"))
		w.next(t, 1)
		ok(t, v.Republish(template))
		if got := w.next(t, 5); len(got) != 1 {
			t.Errorf("told %v", got)
		}
		if same, other := c.disk(t, ref); same != uuid || other == content {
			t.Errorf("the disk is %s with %s", same, other)
		}
		if c.changeVersion(t, ref) == version {
			t.Error("it keeps its version")
		}
		addVM(t, v, "/DC0/vm", "on")
		ok(t, v.PowerOn("on"))
		wantFault[*types.InvalidPowerState](t, v.Republish("on"))
	})
}

func TestAnAdminsCloneIsACopyWithAnIdentityOfItsOwn(t *testing.T) {
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
