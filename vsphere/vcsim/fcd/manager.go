package fcd

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/course"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// The kinds of the tasks of VcenterVStorageObjectManager.
const (
	Create         course.Kind = "vslm.vcenter.VStorageObjectManager.createDisk"
	Extend         course.Kind = "vslm.vcenter.VStorageObjectManager.extendDisk"
	Delete         course.Kind = "vslm.vcenter.VStorageObjectManager.deleteVStorageObject"
	UpdateMetadata course.Kind = "vslm.vcenter.VStorageObjectManager.updateVStorageObjectMetadataEx"
)

// Wrap returns the manager of first-class disks for one call.
func (d *Disks) Wrap(o *simulator.VcenterVStorageObjectManager, g *world.Guard) mo.Reference {
	g.Protect(o.Self, false)
	return &manager{VcenterVStorageObjectManager: o, Guard: g, d: d}
}

// manager wraps the simulator's for one call.
type manager struct {
	*simulator.VcenterVStorageObjectManager
	*world.Guard
	d *Disks
}

// begin starts a task on a datastore; name is for FailTask.
func (m *manager) begin(kind course.Kind, datastore types.ManagedObjectReference, name string, do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)) types.ManagedObjectReference {
	return m.d.vms.Begin(m.Guard, kind, m.d.world.Objects.Get(datastore).(mo.Entity), name, do)
}

// nameOf returns the name of a disk for FailTask.
func (m *manager) nameOf(id types.ID) string {
	if one := m.d.disks[id.Id]; one != nil {
		return one.name
	}
	return ""
}

// CreateDiskTask keeps the metadata.
//
// [doc] VslmCreateSpec.metadata: "The create task is atomic by design. That being said, failing to add the specified metadata pairs leads
// to the failure of the create task"; keepAfterDeleteVm: "If not set, the default value is true". Names are not unique.
func (m *manager) CreateDiskTask(_ *simulator.Context, req *types.CreateDisk_Task) soap.HasFault {
	at := req.Spec.BackingSpec.GetVslmCreateSpecBackingSpec().Datastore
	ref := m.begin(Create, at, req.Spec.Name, func(*simulator.Context) (types.AnyType, types.BaseMethodFault) {
		one, fault := m.d.create(req.Spec, at)
		if fault != nil {
			return nil, fault
		}
		return m.d.object(one), nil
	})
	return &methods.CreateDisk_TaskBody{Res: &types.CreateDisk_TaskResponse{Returnval: ref}}
}

func (d *Disks) create(spec types.VslmCreateSpec, at types.ManagedObjectReference) (*disk, types.BaseMethodFault) {
	if fault := d.usable(at); fault != nil {
		return nil, fault
	}
	if d.full[at] {
		return nil, &types.NoDiskSpace{FileFault: types.FileFault{File: spec.Name}, Datastore: d.world.Objects.Get(at).(*simulator.Datastore).Name}
	}
	if spec.CapacityInMB <= 0 || spec.Name == "" {
		return nil, &types.InvalidArgument{InvalidProperty: "spec"}
	}
	one := &disk{id: uuid.NewString(), name: spec.Name, datastore: at, capacityMB: spec.CapacityInMB, created: time.Now(),
		keep: spec.KeepAfterDeleteVm == nil || *spec.KeepAfterDeleteVm, metadata: map[string]string{}}
	for _, entry := range spec.Metadata {
		if _, twice := one.metadata[entry.Key]; twice || entry.Key == "" {
			return nil, &types.InvalidArgument{InvalidProperty: "spec.metadata"}
		}
		one.metadata[entry.Key] = entry.Value
	}
	for _, profile := range spec.Profile {
		if p, is := profile.(*types.VirtualMachineDefinedProfileSpec); is {
			one.profiles = append(one.profiles, p.ProfileId)
		}
	}
	if b, is := spec.BackingSpec.(*types.VslmCreateSpecDiskFileBackingSpec); is {
		one.provisioned = b.ProvisioningType
	}
	d.place(one)
	d.disks[one.id] = one
	return one, nil
}

// place puts a disk where vCenter puts a new one on its datastore.
func (d *Disks) place(one *disk) {
	one.file = (&object.DatastorePath{Datastore: d.datastore(one).Name, Path: "fcd/" + one.id + ".vmdk"}).String()
}

func (d *Disks) datastore(one *disk) *simulator.Datastore {
	return d.world.Objects.Get(one.datastore).(*simulator.Datastore)
}

// at returns the disk with a file; nil if there is none.
func (d *Disks) at(file string) *disk {
	for _, one := range d.disks {
		if one.file == file {
			return one
		}
	}
	return nil
}

// usable returns the fault of a call on a datastore that no host reaches.
//
// [doc] ListVStorageObject, CreateDisk_Task: InvalidDatastore, "if the operation cannot be performed on the datastore".
func (d *Disks) usable(datastore types.ManagedObjectReference) types.BaseMethodFault {
	if ds := d.world.Objects.Get(datastore).(*simulator.Datastore); d.unreachable[datastore] || !ds.Summary.Accessible {
		return &types.InvalidDatastore{Datastore: &datastore, Name: ds.Name}
	}
	return nil
}

// ListVStorageObject lists a new disk late, and keeps the ids of those whose files somebody deleted (govmomi#3659).
func (m *manager) ListVStorageObject(req *types.ListVStorageObject) soap.HasFault {
	body := new(methods.ListVStorageObjectBody)
	if fault := m.d.usable(req.Datastore); fault != nil {
		body.Fault_ = simulator.Fault("", fault)
		return body
	}
	body.Res = new(types.ListVStorageObjectResponse)
	for _, one := range m.d.disks {
		if one.datastore == req.Datastore && time.Since(one.created) >= m.d.lag && !time.Now().Before(one.moving) {
			body.Res.Returnval = append(body.Res.Returnval, types.ID{Id: one.id})
		}
	}
	slices.SortFunc(body.Res.Returnval, func(a, b types.ID) int { return strings.Compare(a.Id, b.Id) })
	return body
}

// RetrieveVStorageObject finds a disk only on the datastore that it is on.
//
// [doc] NotFound "If the specified virtual storage object cannot be found".
func (m *manager) RetrieveVStorageObject(_ *simulator.Context, req *types.RetrieveVStorageObject) soap.HasFault {
	body := new(methods.RetrieveVStorageObjectBody)
	if fault := m.d.usable(req.Datastore); fault != nil {
		body.Fault_ = simulator.Fault("", fault)
		return body
	}
	one := m.d.found(req.Id, req.Datastore)
	if one == nil {
		body.Fault_ = simulator.Fault("", new(types.NotFound))
		return body
	}
	if one.broken != nil {
		body.Fault_ = simulator.Fault("", one.broken)
		return body
	}
	body.Res = &types.RetrieveVStorageObjectResponse{Returnval: m.d.object(one)}
	return body
}

// RetrieveVStorageObjectAssociations names VMs by their moRefs. It does not know VMs outside the inventory.
//
// [doc] VStorageObjectAssociations.fault: "Received error while generating associations".
func (m *manager) RetrieveVStorageObjectAssociations(req *types.RetrieveVStorageObjectAssociations) soap.HasFault {
	body := &methods.RetrieveVStorageObjectAssociationsBody{Res: new(types.RetrieveVStorageObjectAssociationsResponse)}
	for _, ask := range req.Ids {
		a := types.VStorageObjectAssociations{Id: ask.Id}
		if m.d.found(ask.Id, ask.Datastore) == nil {
			a.Fault = &types.LocalizedMethodFault{Fault: new(types.NotFound), LocalizedMessage: "The object or item referred to could not be found."}
		}
		for _, u := range m.d.usesOf(ask.Id.Id) {
			if a.Fault == nil && m.d.world.Objects.Get(u.vm.Self) != nil {
				a.VmDiskAssociations = append(a.VmDiskAssociations, types.VStorageObjectAssociationsVmDiskAssociations{VmId: u.vm.Self.Value, DiskKey: u.device.Key})
			}
		}
		body.Res.Returnval = append(body.Res.Returnval, a)
	}
	return body
}

// VCenterUpdateVStorageObjectMetadataExTask sets keys, and leaves the others.
func (m *manager) VCenterUpdateVStorageObjectMetadataExTask(_ *simulator.Context, req *types.VCenterUpdateVStorageObjectMetadataEx_Task) soap.HasFault {
	ref := m.begin(UpdateMetadata, req.Datastore, m.nameOf(req.Id), func(*simulator.Context) (types.AnyType, types.BaseMethodFault) {
		one := m.d.found(req.Id, req.Datastore)
		if one == nil {
			return nil, new(types.NotFound)
		}
		for _, entry := range req.Metadata {
			one.metadata[entry.Key] = entry.Value
		}
		for _, key := range req.DeleteKeys {
			delete(one.metadata, key)
		}
		return nil, nil
	})
	return &methods.VCenterUpdateVStorageObjectMetadataEx_TaskBody{Res: &types.VCenterUpdateVStorageObjectMetadataEx_TaskResponse{Returnval: ref}}
}

// DeleteVStorageObjectTask refuses a disk that is attached, and one with snapshots (vsphere-csi-driver#1335).
//
// [doc] InvalidState "if the operation cannot be performed due to the current state of the virtual storage object".
func (m *manager) DeleteVStorageObjectTask(_ *simulator.Context, req *types.DeleteVStorageObject_Task) soap.HasFault {
	ref := m.begin(Delete, req.Datastore, m.nameOf(req.Id), func(*simulator.Context) (types.AnyType, types.BaseMethodFault) {
		one := m.d.found(req.Id, req.Datastore)
		switch {
		case one == nil:
			return nil, new(types.NotFound)
		case one.snapshots > 0 || len(m.d.usesOf(one.id)) > 0:
			return nil, new(types.InvalidState)
		}
		delete(m.d.disks, one.id)
		return nil, nil
	})
	return &methods.DeleteVStorageObject_TaskBody{Res: &types.DeleteVStorageObject_TaskResponse{Returnval: ref}}
}

// ExtendDiskTask refuses a disk with snapshots, its own (vsphere-csi-driver#2311) or its VM's, and a size that it has.
func (m *manager) ExtendDiskTask(_ *simulator.Context, req *types.ExtendDisk_Task) soap.HasFault {
	ref := m.begin(Extend, req.Datastore, m.nameOf(req.Id), func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		one := m.d.found(req.Id, req.Datastore)
		switch {
		case one == nil:
			return nil, new(types.NotFound)
		case req.NewCapacityInMB <= one.capacityMB:
			return nil, &types.InvalidArgument{InvalidProperty: "newCapacityInMB"}
		case m.d.full[one.datastore]:
			return nil, &types.NoDiskSpace{FileFault: types.FileFault{File: one.file}, Datastore: m.d.datastore(one).Name}
		case one.snapshots > 0:
			return nil, new(types.InvalidState)
		}
		uses := m.d.usesOf(one.id)
		for _, u := range uses {
			on := u.vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff
			if base(u.device) != u.device.Backing || on && m.d.noOnline {
				return nil, new(types.InvalidState)
			}
		}
		one.capacityMB = req.NewCapacityInMB
		for _, u := range uses {
			m.d.resize(ctx, u, one.capacityMB)
		}
		return nil, nil
	})
	return &methods.ExtendDisk_TaskBody{Res: &types.ExtendDisk_TaskResponse{Returnval: ref}}
}

// resize shows a disk's size in a VM's device.
func (d *Disks) resize(ctx *simulator.Context, u use, capacityMB int64) {
	larger := *u.device
	larger.CapacityInKB, larger.CapacityInBytes = capacityMB<<10, capacityMB<<20
	d.replace(ctx, u, &larger)
}

// replace replaces a VM's device.
func (d *Disks) replace(ctx *simulator.Context, u use, by *types.VirtualDisk) {
	devices := slices.Clone(u.vm.Config.Hardware.Device)
	for i, device := range devices {
		if device == types.BaseVirtualDevice(u.device) {
			devices[i] = by
		}
	}
	d.vms.Amend(ctx, u.vm, types.PropertyChange{Name: "config.hardware.device", Val: devices})
}
