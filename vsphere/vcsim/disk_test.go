package vcsim_test

import (
	"testing"

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

// disksOf returns the disks of a VM in the order of their attachment.
func disksOf(t testing.TB, v *vcsim.VCenter, where string) []vcsim.Disk {
	t.Helper()
	d, err := v.Details(where)
	ok(t, err)
	return d.Disks
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
