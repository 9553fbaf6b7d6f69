package inventory

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/vim25/types"
)

// fingerprintLength is how many hexadecimal digits of the hash are kept: enough to tell the few versions of one
// template from each other.
const fingerprintLength = 10

// fingerprint tells a template's disks from those of another one, or of another version of it. contentId is the
// disk's own word: it changes when the disk is written to. config.changeVersion would not do: any edit of the template
// changes it, and so does registering the template again, and everybody's VMs would be rolled for it.
func fingerprint(instanceUUID string, devices []types.BaseVirtualDevice) string {
	var disks []*types.VirtualDisk
	for _, device := range devices {
		if disk, is := device.(*types.VirtualDisk); is {
			disks = append(disks, disk)
		}
	}
	slices.SortFunc(disks, func(a, b *types.VirtualDisk) int { return cmp.Compare(a.Key, b.Key) })
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%q", instanceUUID)
	for _, disk := range disks {
		capacity := disk.CapacityInBytes
		if capacity == 0 { // as hosts before 5.5 say it
			capacity = disk.CapacityInKB << 10
		}
		uuid, content := contentOf(disk.Backing)
		_, _ = fmt.Fprintf(hash, ",%d,%q,%q", capacity, uuid, content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:fingerprintLength]
}

// contentOf gives a disk's uuid and contentId.
func contentOf(backing types.BaseVirtualDeviceBackingInfo) (uuid, content string) {
	switch b := backing.(type) {
	case *types.VirtualDiskFlatVer2BackingInfo:
		return b.Uuid, b.ContentId
	case *types.VirtualDiskSeSparseBackingInfo:
		return b.Uuid, b.ContentId
	case *types.VirtualDiskSparseVer2BackingInfo:
		return b.Uuid, b.ContentId
	case *types.VirtualDiskRawDiskMappingVer1BackingInfo:
		return b.Uuid, b.ContentId
	case *types.VirtualDiskLocalPMemBackingInfo:
		return b.Uuid, b.ContentId
	case *types.VirtualDiskFlatVer1BackingInfo:
		return "", b.ContentId
	case *types.VirtualDiskSparseVer1BackingInfo:
		return "", b.ContentId
	}
	return "", ""
}
