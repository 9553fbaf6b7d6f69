package vcsim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// FirstClassDisk is the current state of a first-class disk, regardless of privileges and of what vCenter's catalogue shows.
type FirstClassDisk struct {
	ID, Name   string
	Datastore  string // the inventory path
	File       string
	CapacityMB int64
	Keep       bool // when the VM is destroyed
	Metadata   map[string]string
	Policies   []string // the storage policies' ids
	VMs        []string // the paths of the VMs that have it; the names of those outside the inventory
	UUIDs      []string // their instanceUuids
	Written    []Write  // by guests, the oldest first
}

// Write is what a guest wrote to a disk in one period of power.
type Write struct {
	VM, InstanceUUID string
	At               time.Time
}

// FirstClassDisks lists the first-class disks by name and id, without those whose files were lost.
func (d *fcds) FirstClassDisks() (all []FirstClassDisk) {
	d.world.Lock()
	defer d.world.Unlock()
	for _, one := range d.disks {
		if one.lost {
			continue
		}
		f := FirstClassDisk{ID: one.id, Name: one.name, Datastore: d.world.Path(one.datastore), File: one.file, CapacityMB: one.capacityMB, Keep: one.keep,
			Metadata: maps.Clone(one.metadata), Policies: slices.Clone(one.profiles), Written: slices.Clone(one.written)}
		for _, u := range d.usesOf(one.id) {
			path := u.vm.Name
			if d.world.Objects.Get(u.vm.Self) != nil {
				path = d.world.Path(u.vm.Self)
			}
			f.VMs, f.UUIDs = append(f.VMs, path), append(f.UUIDs, u.vm.Config.InstanceUuid)
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b FirstClassDisk) int { return strings.Compare(a.Name+" "+a.ID, b.Name+" "+b.ID) })
	return all
}

// change changes the disk with an id.
func (d *fcds) change(what, id string, do func(*fcd)) error {
	d.world.Lock()
	defer d.world.Unlock()
	one := d.disks[id]
	if one == nil {
		return fmt.Errorf("%s %s: no such first-class disk", what, id)
	}
	do(one)
	return nil
}

// MoveFirstClassDisk moves a disk to the datastore at a path, attached or not, as Storage DRS does. vCenter does not find it for a while
// from now on.
func (d *fcds) MoveFirstClassDisk(id, datastorePath string, missing time.Duration) error {
	to, err := d.vms.Find(datastorePath)
	if err != nil {
		return err
	}
	return d.change("move", id, func(one *fcd) {
		one.datastore, one.moving = to, time.Now().Add(missing)
		d.place(one)
		for _, u := range d.usesOf(id) {
			moved := *u.device
			if b, is := u.device.Backing.(*flat); is {
				at := *b
				at.FileName, at.Datastore = one.file, &to
				moved.Backing = &at
			}
			d.replace(d.world.Context(), u, &moved)
			d.world.Mark(u.vm.Self)
		}
	})
}

// LoseFirstClassDisk deletes a disk's files behind vCenter's back: the contents are gone. vCenter lists the id as before, and VMs that have
// it keep their devices.
func (d *fcds) LoseFirstClassDisk(id string) error {
	return d.change("lose", id, func(one *fcd) { one.lost = true })
}

// BreakFirstClassDisk makes vCenter answer each read of a disk with a fault, as for one whose descriptor is damaged; nil ends that.
func (d *fcds) BreakFirstClassDisk(id string, fault types.BaseMethodFault) error {
	return d.change("break", id, func(one *fcd) { one.broken = fault })
}

// SnapshotFirstClassDisk takes snapshots of a disk itself, as backup software does; 0 removes them.
func (d *fcds) SnapshotFirstClassDisk(id string, snapshots int) error {
	return d.change("take a snapshot of", id, func(one *fcd) { one.snapshots = snapshots })
}

// TrackFirstClassDisk turns changed block tracking of a disk on or off. A VM without it cannot attach a disk that has it.
func (d *fcds) TrackFirstClassDisk(id string, on bool) error {
	return d.change("track", id, func(one *fcd) { one.tracked = on })
}

// BackUp turns changed block tracking on for a VM and for its first-class disks, as backup software does, and leaves it so.
func (d *fcds) BackUp(where string) error {
	return d.vms.changeVM("back up", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		d.vms.Amend(ctx, vm, types.PropertyChange{Name: "config.changeTrackingEnabled", Val: true})
		for _, one := range d.in(vm.Config.Hardware.Device) {
			one.tracked = true
		}
		return nil
	})
}

// HoldFirstClassDisk makes vCenter take a disk for in use by a VM that is gone, or ends that.
func (d *fcds) HoldFirstClassDisk(id string, held bool) error {
	return d.change("hold", id, func(one *fcd) { one.stale = held })
}

// KeepFirstClassDisk sets the control flag keepAfterDeleteVm.
func (d *fcds) KeepFirstClassDisk(id string, keep bool) error {
	return d.change("set the flag of", id, func(one *fcd) { one.keep = keep })
}

// LagFirstClassDisks makes a disk appear in lists this long after its creation.
func (d *fcds) LagFirstClassDisks(lag time.Duration) { d.set(func() { d.lag = lag }) }

// AllowSecondAttach makes vCenter attach a disk to a second VM. The one that is powered on first then keeps the others from it.
func (d *fcds) AllowSecondAttach(allowed bool) { d.set(func() { d.second = allowed }) }

// RefuseOnlineExtend makes hosts, like those before vSphere 7.0 U2, not extend the disks of running VMs.
func (d *fcds) RefuseOnlineExtend(refused bool) { d.set(func() { d.noOnline = refused }) }

func (d *fcds) set(do func()) {
	d.world.Lock()
	defer d.world.Unlock()
	do()
}

// FillDatastore makes the datastore at a path too full for a new first-class disk or a larger one, or gives it room again.
func (d *fcds) FillDatastore(path string, full bool) error {
	return d.setAt(path, d.full, full)
}

// CutDatastore keeps vCenter from the first-class disks on the datastore at a path, or ends that.
func (d *fcds) CutDatastore(path string, cut bool) error {
	return d.setAt(path, d.unreachable, cut)
}

func (d *fcds) setAt(path string, of map[types.ManagedObjectReference]bool, is bool) error {
	ref, err := d.vms.Find(path)
	if err != nil {
		return err
	}
	d.set(func() { of[ref] = is })
	return nil
}
