package fcd

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/backing"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/course"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Disks are the first-class disks of one vCenter.
type Disks struct {
	world *world.World
	vms   VMs

	// The world lock guards these.
	disks       map[string]*disk
	lag         time.Duration // until a new disk is listed
	second      bool          // a second VM may attach a disk
	noOnline    bool          // hosts that do not extend the disk of a running VM
	unreachable map[types.ManagedObjectReference]bool
	full        map[types.ManagedObjectReference]bool
}

// VMs are the VMs that disks are attached to, and the tasks.
type VMs interface {
	// Begin starts a task on an object, and Everywhere lists all VMs, those outside the inventory included. Amend changes properties
	// in a VM's configuration file.
	Begin(g *world.Guard, kind course.Kind, on mo.Entity, name string, do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)) types.ManagedObjectReference
	Everywhere() []*simulator.VirtualMachine
	Amend(ctx *simulator.Context, vm *simulator.VirtualMachine, changes ...types.PropertyChange)
	// Find returns the object at an inventory path.
	Find(where string) (types.ManagedObjectReference, error)
}

// disk is one first-class disk.
type disk struct {
	id, name    string
	datastore   types.ManagedObjectReference
	file        string // "[datastore] fcd/id.vmdk"
	capacityMB  int64
	created     time.Time
	keep        bool
	provisioned string
	metadata    map[string]string
	profiles    []string

	snapshots int                   // of the disk
	tracked   bool                  // changed block tracking
	stale     bool                  // vCenter takes it for in use, and nobody has it
	lost      bool                  // somebody deleted the files
	broken    types.BaseMethodFault // of each read of it
	moving    time.Time             // vCenter does not find it before
	written   []Write
}

// New returns a vCenter's disks: none.
func New(w *world.World) *Disks {
	return &Disks{world: w, disks: map[string]*disk{}, unreachable: map[types.ManagedObjectReference]bool{}, full: map[types.ManagedObjectReference]bool{}}
}

// Serve sets the VMs, before the first call.
func (d *Disks) Serve(vms VMs) { d.vms = vms }

// found returns the disk that vCenter finds under an id, on a datastore; nil if it finds none.
func (d *Disks) found(id types.ID, datastore types.ManagedObjectReference) *disk {
	one := d.disks[id.Id]
	if one == nil || one.lost || one.datastore != datastore || time.Now().Before(one.moving) {
		return nil
	}
	return one
}

// object returns a disk as vCenter shows it: its name is escaped (vmware/rbvmomi#169).
func (d *Disks) object(one *disk) types.VStorageObject {
	keep, tracked := one.keep, one.tracked
	var metadata []types.KeyValue
	for _, key := range slices.Sorted(maps.Keys(one.metadata)) {
		metadata = append(metadata, types.KeyValue{Key: key, Value: one.metadata[key]})
	}
	var consumers []types.ID
	for _, u := range d.usesOf(one.id) {
		consumers = append(consumers, types.ID{Id: u.vm.Config.InstanceUuid})
	}
	return types.VStorageObject{Config: types.VStorageObjectConfigInfo{
		BaseConfigInfo: types.BaseConfigInfo{
			Id: types.ID{Id: one.id}, Name: world.Escape(one.name), CreateTime: one.created, KeepAfterDeleteVm: &keep, ChangedBlockTrackingEnabled: &tracked, Metadata: metadata,
			Backing: &types.BaseConfigInfoDiskFileBackingInfo{
				BaseConfigInfoFileBackingInfo: types.BaseConfigInfoFileBackingInfo{
					BaseConfigInfoBackingInfo: types.BaseConfigInfoBackingInfo{Datastore: one.datastore},
					FilePath:                  one.file, BackingObjectId: one.id,
				},
				ProvisioningType: cmp.Or(one.provisioned, string(types.BaseConfigInfoDiskFileBackingInfoProvisioningTypeThin)),
			},
		},
		CapacityInMB: one.capacityMB, ConsumptionType: []string{"disk"}, ConsumerId: consumers,
	}}
}

// use is a VM that has a disk, by its device.
type use struct {
	vm     *simulator.VirtualMachine
	device *types.VirtualDisk
}

// usesOf returns the VMs that have a disk.
func (d *Disks) usesOf(id string) (all []use) {
	for _, vm := range d.vms.Everywhere() {
		for _, device := range backing.Disks(vm.Config.Hardware.Device) {
			if idOf(device) == id {
				all = append(all, use{vm, device})
			}
		}
	}
	return all
}

// in returns the first-class disks in devices, by the device.
func (d *Disks) in(devices []types.BaseVirtualDevice) map[*types.VirtualDisk]*disk {
	has := map[*types.VirtualDisk]*disk{}
	for _, device := range backing.Disks(devices) {
		if one := d.disks[idOf(device)]; one != nil {
			has[device] = one
		}
	}
	return has
}

// idOf returns the id of a device's first-class disk; empty for any other.
func idOf(device *types.VirtualDisk) string {
	if device.VDiskId == nil {
		return ""
	}
	return device.VDiskId.Id
}

// base returns the file at the end of a device's chain of deltas.
func base(device *types.VirtualDisk) *backing.Flat {
	b, is := device.Backing.(*backing.Flat)
	for is && b.Parent != nil {
		b = b.Parent
	}
	return b
}
