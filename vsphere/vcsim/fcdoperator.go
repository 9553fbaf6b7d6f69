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
	Keep       bool // whether the disk is kept when its VM is destroyed
	Metadata   map[string]string
	Policies   []string // the ids of the storage policies requested for it
	VMs        []string // the paths of the VMs that have it; the names of those outside the inventory
	UUIDs      []string // their instanceUuids
	Written    []Write  // what guests wrote, the oldest first
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
		if one.Lost {
			continue
		}
		f := FirstClassDisk{ID: one.id, Name: one.name, Datastore: d.world.Path(one.datastore), File: one.file, CapacityMB: one.capacityMB, Keep: one.Keep,
			Metadata: maps.Clone(one.metadata), Policies: one.policies, Written: slices.Clone(one.written)}
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

// MoveFirstClassDisk moves a disk to the datastore at a path, attached or not, as Storage DRS does. vCenter does not find the disk for the time
// missing.
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

// EditFirstClassDisk changes the state of a disk.
func (d *fcds) EditFirstClassDisk(id string, change func(*DiskState)) error {
	return d.change("edit", id, func(one *fcd) { change(&one.DiskState) })
}

// BackUp turns changed block tracking on for a VM and for its first-class disks, as backup software does. Nothing turns it off again.
func (d *fcds) BackUp(where string) error {
	return d.vms.changeVM("back up", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		d.vms.Amend(ctx, vm, types.PropertyChange{Name: "config.changeTrackingEnabled", Val: true})
		for _, one := range d.in(vm.Config.Hardware.Device) {
			one.Tracked = true
		}
		return nil
	})
}

// FillDatastore makes the datastore at a path too full for a clone, and to create or extend a first-class disk, or frees half of its space.
func (d *fcds) FillDatastore(path string, full bool) error {
	return at(d.vms, "fill", path, func(ds *simulator.Datastore) types.BaseMethodFault {
		d.full[ds.Self], ds.Summary.FreeSpace = full, ds.Summary.Capacity/2
		if full {
			ds.Summary.FreeSpace = 0
		}
		d.world.Mark(ds.Self)
		return nil
	})
}

// CutDatastore makes vCenter unable to access the first-class disks on the datastore at a path, or restores the access.
func (d *fcds) CutDatastore(path string, cut bool) error {
	return d.setAt(path, d.unreachable, cut)
}

func (d *fcds) setAt(path string, of map[types.ManagedObjectReference]bool, is bool) error {
	return at(d.vms, "change", path, func(ds *simulator.Datastore) types.BaseMethodFault { of[ds.Self] = is; return nil })
}
