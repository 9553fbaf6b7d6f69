package disks

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/vim25/types"
)

// fingerprintLength is the number of hexadecimal digits of the hash in a fingerprint: enough to distinguish the few versions of one
// template.
const fingerprintLength = 10

// Fingerprint identifies a template's disks among those of other templates, and of other versions of the same template. It is a hash of the
// template's instanceUuid, and of the size, uuid and contentId of each disk. The contentId changes when the disk is written to.
// config.changeVersion is not used: it changes with any edit of the template and when the template is registered again, and each change would
// make all groups of the template replace their VMs.
//
// vCenter provides the uuid and the contentId only "if available" ([doc] VirtualDiskFlatVer2BackingInfo). Without one of them, Fingerprint
// returns "", for unknown: a hash of the rest would change when vCenter begins or ceases to provide it.
func Fingerprint(instanceUUID string, devices []types.BaseVirtualDevice) string {
	disks, hash := In(devices), sha256.New()
	slices.SortFunc(disks, func(a, b *types.VirtualDisk) int { return cmp.Compare(a.Key, b.Key) })
	_, _ = fmt.Fprintf(hash, "%q", instanceUUID)
	for _, disk := range disks {
		uuid, hasUUID, content := contentOf(disk.Backing)
		if content == "" || uuid == "" && hasUUID {
			return ""
		}
		_, _ = fmt.Fprintf(hash, ",%d,%q,%q", capacity(disk), uuid, content)
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
