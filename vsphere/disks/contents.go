package disks

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

// Contents is what tells a template's disks from those of another one, or of another version of it.
type Contents struct {
	// Fingerprint is empty if it is not known.
	Fingerprint string
	// Partial are the fingerprints that older servers gave these disks where vCenter left out some of their ids.
	Partial [3]string
}

// ContentsOf tells disks by the template's instanceUuid, and by the size, uuid and contentId of each. contentId is the disk's own
// word: it changes when the disk is written to. config.changeVersion would not do: any edit of the template changes it, and so does
// registering the template again, and everybody's VMs would be rolled for it.
//
// vCenter gives the uuid and the contentId only "if available" ([doc] VirtualDiskFlatVer2BackingInfo). Without one of them the
// fingerprint is not known: made of the rest, it would change whenever they come or go.
func ContentsOf(instanceUUID string, devices []types.BaseVirtualDevice) (d Contents) {
	disks := In(devices)
	whole := !slices.ContainsFunc(disks, func(disk *types.VirtualDisk) bool {
		uuid, hasUUID, content := contentOf(disk.Backing)
		return content == "" || uuid == "" && hasUUID
	})
	slices.SortFunc(disks, func(a, b *types.VirtualDisk) int { return cmp.Compare(a.Key, b.Key) })
	if !whole {
		return d
	}
	d.Fingerprint = hashOf(instanceUUID, disks, true, true)
	if len(disks) > 0 {
		d.Partial = [...]string{hashOf(instanceUUID, disks, true, false), hashOf(instanceUUID, disks, false, true), hashOf(instanceUUID, disks, false, false)}
	}
	return d
}

// hashOf is a fingerprint of disks, with their uuids and contentIds or without.
func hashOf(instanceUUID string, disks []*types.VirtualDisk, uuids, contents bool) string {
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%q", instanceUUID)
	for _, disk := range disks {
		capacity := disk.CapacityInBytes
		if capacity == 0 { // as hosts before 5.5 say it
			capacity = disk.CapacityInKB << 10
		}
		uuid, _, content := contentOf(disk.Backing)
		if !uuids {
			uuid = ""
		}
		if !contents {
			content = ""
		}
		_, _ = fmt.Fprintf(hash, ",%d,%q,%q", capacity, uuid, content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:fingerprintLength]
}

// contentOf gives a disk's uuid and contentId, and reports whether a disk of that kind has a uuid.
func contentOf(backing types.BaseVirtualDeviceBackingInfo) (uuid string, hasUUID bool, content string) {
	switch b := backing.(type) {
	case *types.VirtualDiskFlatVer2BackingInfo:
		return b.Uuid, true, b.ContentId
	case *types.VirtualDiskSeSparseBackingInfo:
		return b.Uuid, true, b.ContentId
	case *types.VirtualDiskSparseVer2BackingInfo:
		return b.Uuid, true, b.ContentId
	case *types.VirtualDiskRawDiskMappingVer1BackingInfo:
		return b.Uuid, true, b.ContentId
	case *types.VirtualDiskLocalPMemBackingInfo:
		return b.Uuid, true, b.ContentId
	case *types.VirtualDiskFlatVer1BackingInfo:
		return "", false, b.ContentId
	case *types.VirtualDiskSparseVer1BackingInfo:
		return "", false, b.ContentId
	}
	return "", true, ""
}
