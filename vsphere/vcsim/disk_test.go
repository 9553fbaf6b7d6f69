package vcsim_test

import (
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

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
			t.Errorf("%d disks; want 1", n)
		}
	})
}
