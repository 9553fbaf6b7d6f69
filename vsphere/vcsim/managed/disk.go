package managed

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// newContentID is an id that no contents had before, 32 hexadecimal digits as vCenter's are.
func newContentID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// rewritten copies the devices as they are when their disks have other contents.
//
// [doc] VirtualDiskFlatVer2BackingInfo.contentId: "if two disk backings have the same content ID and are
// not currently being written to, then reads ... will return the same data".
func rewritten(devices []types.BaseVirtualDevice) []types.BaseVirtualDevice {
	return withContent(devices, func(int32, string) string { return newContentID() })
}

// withContent copies the devices as they are when the contentIds of their disks are others, by keys and present ones.
func withContent(devices []types.BaseVirtualDevice, of func(key int32, now string) string) []types.BaseVirtualDevice {
	devices = slices.Clone(devices)
	for i, d := range devices {
		disk, ok := d.(*types.VirtualDisk)
		if !ok {
			continue
		}
		if b, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			backing, copied := *b, *disk
			backing.ContentId = of(disk.Key, b.ContentId)
			copied.Backing = &backing
			devices[i] = &copied
		}
	}
	return devices
}

// ShowContentIDs has vCenter leave out the contentIds of a VM's or template's disks, or give them again, unless the disks were
// written to meanwhile. No version changes.
//
// [doc] VirtualDiskFlatVer2BackingInfo.contentId: "Content ID of the virtual disk file, if available."
func (v *Objects) ShowContentIDs(where string, shown bool) error {
	return v.byHand("show the contentIds of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		of := func(key int32, now string) string {
			id := diskID{vm.Self, key}
			if !shown {
				v.contents[id] = cmp.Or(now, v.contents[id])
				return ""
			}
			return cmp.Or(now, v.contents[id])
		}
		v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "config.hardware.device", Val: withContent(vm.Config.Hardware.Device, of)}})
		return nil
	})
}

// diskID is a VM and the key of one of its disks.
type diskID struct {
	vm  types.ManagedObjectReference
	key int32
}
