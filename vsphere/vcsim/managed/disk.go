package managed

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// newContentID returns a new content id: 32 hexadecimal digits, as vCenter's.
func newContentID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// rewritten copies the devices and gives each disk a new content id.
//
// [doc] VirtualDiskFlatVer2BackingInfo.contentId: "if two disk backings have the same content ID and are
// not currently being written to, then reads ... will return the same data".
func rewritten(devices []types.BaseVirtualDevice) []types.BaseVirtualDevice {
	return rebased(devices, func(_ int32, b flat) *flat {
		b.ContentId = newContentID()
		return &b
	})
}

// rebase replaces the backings of a VM's disks.
func (v *Objects) rebase(ctx *simulator.Context, vm *simulator.VirtualMachine, to func(key int32, b flat) *flat) {
	v.amend(ctx, vm, types.PropertyChange{Name: "config.hardware.device", Val: rebased(vm.Config.Hardware.Device, to)})
}

// flat is the backing of all disks here.
type flat = types.VirtualDiskFlatVer2BackingInfo

// rebased copies devices with other backings for the disks.
func rebased(devices []types.BaseVirtualDevice, to func(key int32, b flat) *flat) []types.BaseVirtualDevice {
	devices = slices.Clone(devices)
	for i, d := range devices {
		disk, is := d.(*types.VirtualDisk)
		if !is {
			continue
		}
		if b, is := disk.Backing.(*flat); is {
			copied := *disk
			copied.Backing = to(disk.Key, *b)
			devices[i] = &copied
		}
	}
	return devices
}

// ShowContentIDs hides the contentIds of a VM's or template's disks, or shows them again, without a new changeVersion. Disks that were
// written meanwhile have new ones.
//
// [doc] VirtualDiskFlatVer2BackingInfo.contentId: "Content ID of the virtual disk file, if available."
func (v *Objects) ShowContentIDs(where string, shown bool) error {
	return v.changeVM("show the contentIds of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "config.hardware.device", Val: rebased(vm.Config.Hardware.Device, func(key int32, b flat) *flat {
			id := diskID{vm.Self, key}
			if b.ContentId = cmp.Or(b.ContentId, v.contents[id]); !shown {
				v.contents[id], b.ContentId = b.ContentId, ""
			}
			return &b
		})}})
		return nil
	})
}

// diskID identifies a disk by its VM and its key.
type diskID struct {
	vm  types.ManagedObjectReference
	key int32
}

// deltaFile matches the name of a snapshot's delta: "web-0-000001.vmdk" for "web-0.vmdk".
var deltaFile = regexp.MustCompile(`-(\d{6})\.vmdk$`)

// delta returns the backing to which a VM writes after a snapshot: a child in the same directory, with the same uuid, which the guest sees.
// Independent disks have none.
//
// [doc] VirtualDiskFlatVer2BackingInfo.parent: "The parent of this virtual disk file, if this is a delta disk"; VirtualDiskMode:
// "independent ... not affected by snapshots".
func delta(_ int32, of flat) *flat {
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

// merged returns a backing without the deltas of snapshots. The parent of a linked clone stays.
func merged(_ int32, b flat) *flat {
	for deltaFile.MatchString(b.FileName) && b.Parent != nil {
		content := b.ContentId
		b = *b.Parent
		b.ContentId = content
	}
	return &b
}

// moveDisk moves a disk and its deltas to another datastore, into the directory with the VM's name. The parent of a linked clone stays
// where it is.
func (v *Objects) moveDisk(ctx *simulator.Context, vm *simulator.VirtualMachine, at types.VirtualMachineRelocateSpecDiskLocator) {
	to := object.DatastorePath{Datastore: v.objects.Get(at.Datastore).(*simulator.Datastore).Name}
	move := func(key int32, b flat) *flat {
		if key != at.DiskId {
			return &b
		}
		moved := b
		for link := &moved; ; link = link.Parent {
			var file object.DatastorePath
			file.FromString(link.FileName)
			to.Path = path.Join(vm.Name, path.Base(file.Path))
			link.FileName, link.Datastore = to.String(), &at.Datastore
			if link.Parent == nil || !deltaFile.MatchString(file.Path) {
				return &moved
			}
			parent := *link.Parent
			link.Parent = &parent
		}
	}
	for _, snapshot := range v.snapshotsOf(vm) {
		snapshot.Config.Hardware.Device = rebased(snapshot.Config.Hardware.Device, move)
	}
	v.rebase(ctx, vm, move)
}

// snapshotsOf returns all snapshots of a VM.
func (v *Objects) snapshotsOf(vm *simulator.VirtualMachine) (all []*simulator.VirtualMachineSnapshot) {
	var walk func([]types.ManagedObjectReference)
	walk = func(refs []types.ManagedObjectReference) {
		for _, ref := range refs {
			if snapshot, is := v.objects.Get(ref).(*simulator.VirtualMachineSnapshot); is {
				all = append(all, snapshot)
				walk(snapshot.ChildSnapshot)
			}
		}
	}
	walk(vm.RootSnapshot)
	return all
}

// inSnapshot reports whether a disk, or a parent of it, is part of a snapshot of the VM.
func (v *Objects) inSnapshot(vm *simulator.VirtualMachine, disk *types.VirtualDisk) bool {
	files := map[string]bool{}
	if b, is := disk.Backing.(*flat); is && !strings.HasPrefix(b.DiskMode, "independent") {
		for ; b != nil; b = b.Parent {
			files[b.FileName] = true
		}
	}
	return slices.ContainsFunc(v.snapshotsOf(vm), func(s *simulator.VirtualMachineSnapshot) bool {
		return slices.ContainsFunc(disksIn(s.Config.Hardware.Device), func(d *types.VirtualDisk) bool {
			b, is := d.Backing.(*flat)
			return is && files[b.FileName]
		})
	})
}
