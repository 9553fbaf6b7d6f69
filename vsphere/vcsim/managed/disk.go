package managed

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/backing"
)

// rebase replaces the backings of a VM's disks.
func (v *Objects) rebase(ctx *simulator.Context, vm *simulator.VirtualMachine, to func(key int32, b backing.Flat) *backing.Flat) {
	v.Amend(ctx, vm, types.PropertyChange{Name: "config.hardware.device", Val: backing.Rebased(vm.Config.Hardware.Device, to)})
}

// ShowContentIDs hides the contentIds of a VM's or template's disks, or shows them again, without a new changeVersion. Disks that were
// written meanwhile have new ones.
//
// [doc] VirtualDiskFlatVer2BackingInfo.contentId: "Content ID of the virtual disk file, if available."
func (v *Objects) ShowContentIDs(where string, shown bool) error {
	return v.changeVM("show the contentIds of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "config.hardware.device", Val: backing.Rebased(vm.Config.Hardware.Device, func(key int32, b backing.Flat) *backing.Flat {
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

// moveDisk moves a disk and its deltas to another datastore, into the directory for the VM's. The parent of a linked clone stays
// where it is.
func (v *Objects) moveDisk(ctx *simulator.Context, vm *simulator.VirtualMachine, at types.VirtualMachineRelocateSpecDiskLocator) {
	datastore := v.objects.Get(at.Datastore).(*simulator.Datastore)
	to, directory := object.DatastorePath{Datastore: datastore.Name}, v.directory(vm.Name)
	move := func(key int32, b backing.Flat) *backing.Flat {
		if key != at.DiskId {
			return &b
		}
		moved := b
		for link := &moved; ; link = link.Parent {
			var file object.DatastorePath
			file.FromString(link.FileName)
			to.Path = path.Join(directory, path.Base(file.Path))
			link.FileName, link.Datastore = to.String(), &at.Datastore
			backing.MakeFiles(datastore.Summary.Url, to.Path)
			if link.Parent == nil || !backing.IsDelta(file.Path) {
				return &moved
			}
			parent := *link.Parent
			link.Parent = &parent
		}
	}
	for _, snapshot := range v.snapshotsOf(vm) {
		snapshot.Config.Hardware.Device = backing.Rebased(snapshot.Config.Hardware.Device, move)
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

// grown returns a disk as an edit leaves it: with its own file; nil if it is a delta, which has a fixed size.
func grown(disk *types.VirtualDisk, as types.BaseVirtualDevice) types.BaseVirtualDevice {
	b, is := disk.Backing.(*backing.Flat)
	edited, editing := as.(*types.VirtualDisk)
	if !editing || is && b.Parent != nil {
		return nil
	}
	larger := *edited
	larger.Backing = disk.Backing
	return &larger
}

// inSnapshot reports whether a disk, or a parent of it, is part of a snapshot of the VM.
func (v *Objects) inSnapshot(vm *simulator.VirtualMachine, disk *types.VirtualDisk) bool {
	files := map[string]bool{}
	if b, is := disk.Backing.(*backing.Flat); is && !strings.HasPrefix(b.DiskMode, "independent") {
		for ; b != nil; b = b.Parent {
			files[b.FileName] = true
		}
	}
	return slices.ContainsFunc(v.snapshotsOf(vm), func(s *simulator.VirtualMachineSnapshot) bool {
		return slices.ContainsFunc(backing.Disks(s.Config.Hardware.Device), func(d *types.VirtualDisk) bool {
			b, is := d.Backing.(*backing.Flat)
			return is && files[b.FileName]
		})
	})
}
