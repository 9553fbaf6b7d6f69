package managed

import (
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"
)

// newContentID is an id that no contents had before, 32 hexadecimal digits as vCenter's are.
func newContentID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// rewritten copies the devices as they are when their disks have other contents.
//
// [doc] VirtualDiskFlatVer2BackingInfo.contentId: "if two disk backings have the same content ID and are
// not currently being written to, then reads ... will return the same data".
func rewritten(devices []types.BaseVirtualDevice) []types.BaseVirtualDevice {
	devices = slices.Clone(devices)
	for i, d := range devices {
		disk, ok := d.(*types.VirtualDisk)
		if !ok {
			continue
		}
		if b, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			backing, copied := *b, *disk
			backing.ContentId = newContentID()
			copied.Backing = &backing
			devices[i] = &copied
		}
	}
	return devices
}
