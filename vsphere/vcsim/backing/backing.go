// Package backing has the files behind virtual disks: their contents, and the deltas that snapshots make of them.
package backing

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"
)

// Disks returns the virtual disks among devices.
func Disks(devices []types.BaseVirtualDevice) (disks []*types.VirtualDisk) {
	for _, d := range devices {
		if disk, ok := d.(*types.VirtualDisk); ok {
			disks = append(disks, disk)
		}
	}
	return disks
}

// Flat is the backing of all disks here.
type Flat = types.VirtualDiskFlatVer2BackingInfo

// Rebased copies devices with other backings for the disks.
func Rebased(devices []types.BaseVirtualDevice, to func(key int32, b Flat) *Flat) []types.BaseVirtualDevice {
	devices = slices.Clone(devices)
	for i, d := range devices {
		disk, is := d.(*types.VirtualDisk)
		if !is {
			continue
		}
		if b, is := disk.Backing.(*Flat); is {
			copied := *disk
			copied.Backing = to(disk.Key, *b)
			devices[i] = &copied
		}
	}
	return devices
}

// MakeFiles creates empty files for a disk at a path below a datastore's directory: the simulator looks for them when a disk is attached or
// edited.
func MakeFiles(directory, file string) {
	file = path.Join(directory, file)
	_ = os.MkdirAll(path.Dir(file), 0o750) // a failure shows when they are looked for
	for _, name := range []string{file, strings.TrimSuffix(file, ".vmdk") + "-flat.vmdk"} {
		_ = os.WriteFile(name, nil, 0o600)
	}
}

// NewContentID returns a new content id: 32 hexadecimal digits, as vCenter's.
func NewContentID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// Rewritten copies the devices and gives each disk a new content id.
//
// [doc] VirtualDiskFlatVer2BackingInfo.contentId: "if two disk backings have the same content ID and are
// not currently being written to, then reads ... will return the same data".
func Rewritten(devices []types.BaseVirtualDevice) []types.BaseVirtualDevice {
	return Rebased(devices, func(_ int32, b Flat) *Flat {
		b.ContentId = NewContentID()
		return &b
	})
}

// deltaFile matches the name of a snapshot's delta: "web-0-000001.vmdk" for "web-0.vmdk".
var deltaFile = regexp.MustCompile(`-(\d{6})\.vmdk$`)

// Delta returns the backing to which a VM writes after a snapshot: a child in the same directory, with the same uuid, which the guest sees.
// Independent disks have none.
//
// [doc] VirtualDiskFlatVer2BackingInfo.parent: "The parent of this virtual disk file, if this is a delta disk"; VirtualDiskMode:
// "independent ... not affected by snapshots".
func Delta(_ int32, of Flat) *Flat {
	if strings.HasPrefix(of.DiskMode, "independent") {
		return &of
	}
	n := 0
	if found := deltaFile.FindStringSubmatch(of.FileName); found != nil {
		n, _ = strconv.Atoi(found[1])
	}
	child := of
	child.Parent = &of
	stem := strings.TrimSuffix(deltaFile.ReplaceAllString(of.FileName, ".vmdk"), ".vmdk")
	child.FileName = fmt.Sprintf("%s-%06d.vmdk", stem, n+1)
	return &child
}

// Merged returns a backing without the deltas of snapshots. The parent of a linked clone stays.
func Merged(_ int32, b Flat) *Flat {
	for deltaFile.MatchString(b.FileName) && b.Parent != nil {
		content := b.ContentId
		b = *b.Parent
		b.ContentId = content
	}
	return &b
}

// IsDelta reports whether a file has the name of a snapshot's delta.
func IsDelta(file string) bool { return deltaFile.MatchString(file) }
