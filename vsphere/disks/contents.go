package disks

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/vim25/types"
)

// fingerprintLength is how many hexadecimal digits of the hash are kept: enough to distinguish the few versions of one
// template.
const fingerprintLength = 10

// Contents identifies a template's disks among those of other templates, and of other versions of it.
type Contents struct {
	// Fingerprint is empty if it is unknown.
	Fingerprint string
	// Partial are the fingerprints that older servers made of these disks when vCenter left out some of their ids.
	Partial [3]string
}

// ContentsOf identifies disks by the template's instanceUuid, and by the size, uuid and contentId of each. The contentId
// changes when the disk is written to. config.changeVersion would not do: any edit of the template, or registering it again, changes
// it, and would roll everybody's VMs.
//
// vCenter provides the uuid and the contentId only "if available" ([doc] VirtualDiskFlatVer2BackingInfo). Without one of them the
// fingerprint is unknown: made from the rest, it would change whenever they come or go.
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

// hashOf returns a fingerprint of disks, with or without their uuids and contentIds.
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

// contentOf returns a disk's uuid and contentId, and reports whether a disk of that kind has a uuid.
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
