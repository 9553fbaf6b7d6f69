package vcsim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// fcds are the first-class disks of one vCenter.
type fcds struct {
	world *world
	vms   *inventory

	// The world lock guards these.
	disks       map[string]*fcd
	unreachable map[types.ManagedObjectReference]bool
	full        map[types.ManagedObjectReference]bool
}

// fcd is one first-class disk.
type fcd struct {
	id, name    string
	datastore   types.ManagedObjectReference
	file        string // "[datastore] fcd/id.vmdk"
	capacityMB  int64
	created     time.Time
	provisioned string
	metadata    map[string]string
	policies    []string
	moving      time.Time // until then, vCenter does not find the disk
	written     []Write
	DiskState
}

// DiskState is the part of a first-class disk's state that a test can change.
type DiskState struct {
	// Keep is the control flag keepAfterDeleteVm.
	Keep bool
	// Snapshots is the number of snapshots of the disk itself, such as those of backup software.
	Snapshots int
	// Tracked reports whether changed block tracking is on. A VM without it cannot attach the disk.
	Tracked bool
	// Held reports whether vCenter treats the disk as in use by a VM that is gone.
	Held bool
	// Lost reports whether the disk's files were deleted without vCenter. vCenter still lists the id, and VMs that have the disk keep their
	// devices.
	Lost bool
	// Broken is the fault of each read of the disk, as for a disk whose descriptor is damaged.
	Broken types.BaseMethodFault
}

// newFCDs returns a vCenter's disks: none.
func newFCDs(w *world) *fcds {
	return &fcds{world: w, disks: map[string]*fcd{}, unreachable: map[types.ManagedObjectReference]bool{}, full: map[types.ManagedObjectReference]bool{}}
}

// found returns the disk with an id that vCenter finds on a datastore; nil if it finds none.
func (d *fcds) found(id types.ID, datastore types.ManagedObjectReference) *fcd {
	one := d.disks[id.Id]
	if one == nil || one.Lost || one.datastore != datastore || time.Now().Before(one.moving) {
		return nil
	}
	return one
}

// object returns a disk as vCenter returns it, with its name escaped (vmware/rbvmomi#169).
func (d *fcds) object(one *fcd) types.VStorageObject {
	keep, tracked := one.Keep, one.Tracked
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
			Id: types.ID{Id: one.id}, Name: escape(one.name), CreateTime: one.created, KeepAfterDeleteVm: &keep, ChangedBlockTrackingEnabled: &tracked, Metadata: metadata,
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

// fcdUse is a VM that has a disk, and the disk's device.
type fcdUse struct {
	vm     *simulator.VirtualMachine
	device *types.VirtualDisk
}

// usesOf returns the VMs that have a disk.
func (d *fcds) usesOf(id string) (all []fcdUse) {
	for _, vm := range d.vms.Everywhere() {
		for _, device := range disksIn(vm.Config.Hardware.Device) {
			if idOf(device) == id {
				all = append(all, fcdUse{vm, device})
			}
		}
	}
	return all
}

// in returns the first-class disks in devices, by the device.
func (d *fcds) in(devices []types.BaseVirtualDevice) map[*types.VirtualDisk]*fcd {
	has := map[*types.VirtualDisk]*fcd{}
	for _, device := range disksIn(devices) {
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

// baseOf returns the file at the end of a device's chain of deltas.
func baseOf(device *types.VirtualDisk) *flat {
	b, is := device.Backing.(*flat)
	for is && b.Parent != nil {
		b = b.Parent
	}
	return b
}

// The kinds of the tasks of VcenterVStorageObjectManager.
const (
	CreateDisk         Kind = "vslm.vcenter.VStorageObjectManager.createDisk"
	ExtendDisk         Kind = "vslm.vcenter.VStorageObjectManager.extendDisk"
	DeleteDisk         Kind = "vslm.vcenter.VStorageObjectManager.deleteVStorageObject"
	UpdateDiskMetadata Kind = "vslm.vcenter.VStorageObjectManager.updateVStorageObjectMetadataEx"
)

// fcdManager wraps the simulator's for one call.
type fcdManager struct {
	*simulator.VcenterVStorageObjectManager
	*call
	d *fcds
}

// begin starts a task on a datastore. name is the name that FailTask matches.
func (m *fcdManager) begin(kind Kind, datastore types.ManagedObjectReference, name string, do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)) types.ManagedObjectReference {
	return m.d.vms.begin(m.call, work{kind: kind, entity: m.d.world.Objects.Get(datastore).(mo.Entity), name: name, do: do})
}

// nameOf returns the name of a disk for FailTask.
func (m *fcdManager) nameOf(id types.ID) string {
	if one := m.d.disks[id.Id]; one != nil {
		return one.name
	}
	return ""
}

// CreateDiskTask keeps the metadata.
//
// [doc] VslmCreateSpec.metadata: "The create task is atomic by design. That being said, failing to add the specified metadata pairs leads
// to the failure of the create task"; keepAfterDeleteVm: "If not set, the default value is true". Names are not unique.
func (m *fcdManager) CreateDiskTask(_ *simulator.Context, req *types.CreateDisk_Task) soap.HasFault {
	at := req.Spec.BackingSpec.GetVslmCreateSpecBackingSpec().Datastore
	ref := m.begin(CreateDisk, at, req.Spec.Name, func(*simulator.Context) (types.AnyType, types.BaseMethodFault) {
		one, fault := m.d.create(req.Spec, at)
		if fault != nil {
			return nil, fault
		}
		return m.d.object(one), nil
	})
	return &methods.CreateDisk_TaskBody{Res: &types.CreateDisk_TaskResponse{Returnval: ref}}
}

func (d *fcds) create(spec types.VslmCreateSpec, at types.ManagedObjectReference) (*fcd, types.BaseMethodFault) {
	if fault := d.usable(at); fault != nil {
		return nil, fault
	}
	if utf8.RuneCountInString(escape(spec.Name)) > 80 { // kubernetes-sigs/vsphere-csi-driver#435; no source for the fault, nor for counting the escaped name
		return nil, &types.InvalidArgument{InvalidProperty: "spec.name"}
	}
	policies, fault := d.vms.profileIDs(spec.Profile, "spec.profile")
	if fault != nil {
		return nil, fault
	}
	if d.full[at] {
		return nil, &types.NoDiskSpace{FileFault: types.FileFault{File: spec.Name}, Datastore: d.world.Objects.Get(at).(*simulator.Datastore).Name}
	}
	one := &fcd{id: uuid.NewString(), name: spec.Name, datastore: at, capacityMB: spec.CapacityInMB, created: time.Now(),
		metadata: map[string]string{}, policies: policies, DiskState: DiskState{Keep: spec.KeepAfterDeleteVm == nil || *spec.KeepAfterDeleteVm}}
	for _, entry := range spec.Metadata {
		one.metadata[entry.Key] = entry.Value
	}
	if b, is := spec.BackingSpec.(*types.VslmCreateSpecDiskFileBackingSpec); is {
		one.provisioned = b.ProvisioningType
	}
	d.place(one)
	d.disks[one.id] = one
	return one, nil
}

// place sets the file of a disk to the path that vCenter gives a new disk on its datastore.
func (d *fcds) place(one *fcd) {
	one.file = (&object.DatastorePath{Datastore: d.datastore(one).Name, Path: "fcd/" + one.id + ".vmdk"}).String()
}

func (d *fcds) datastore(one *fcd) *simulator.Datastore {
	return d.world.Objects.Get(one.datastore).(*simulator.Datastore)
}

// at returns the disk with a file; nil if there is none.
func (d *fcds) at(file string) *fcd {
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
func (d *fcds) usable(datastore types.ManagedObjectReference) types.BaseMethodFault {
	if ds := d.world.Objects.Get(datastore).(*simulator.Datastore); d.unreachable[datastore] || !ds.Summary.Accessible {
		return &types.InvalidDatastore{Datastore: &datastore, Name: ds.Name}
	}
	return nil
}

// ListVStorageObject lists a new disk late, and still lists disks whose files were deleted (govmomi#3659).
func (m *fcdManager) ListVStorageObject(req *types.ListVStorageObject) soap.HasFault {
	body := new(methods.ListVStorageObjectBody)
	if fault := m.d.usable(req.Datastore); fault != nil {
		body.Fault_ = simulator.Fault("", fault)
		return body
	}
	body.Res = new(types.ListVStorageObjectResponse)
	for _, one := range m.d.disks {
		if one.datastore == req.Datastore && time.Since(one.created) >= m.d.vms.behavior.LagFirstClassDisks && !time.Now().Before(one.moving) {
			body.Res.Returnval = append(body.Res.Returnval, types.ID{Id: one.id})
		}
	}
	slices.SortFunc(body.Res.Returnval, func(a, b types.ID) int { return strings.Compare(a.Id, b.Id) })
	return body
}

// RetrieveVStorageObject finds a disk only on the disk's datastore.
//
// [doc] NotFound "If the specified virtual storage object cannot be found".
func (m *fcdManager) RetrieveVStorageObject(_ *simulator.Context, req *types.RetrieveVStorageObject) soap.HasFault {
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
	if one.Broken != nil {
		body.Fault_ = simulator.Fault("", one.Broken)
		return body
	}
	body.Res = &types.RetrieveVStorageObjectResponse{Returnval: m.d.object(one)}
	return body
}

// RetrieveVStorageObjectAssociations names VMs by their moRefs. It does not know VMs outside the inventory.
//
// [doc] VStorageObjectAssociations.fault: "Received error while generating associations".
func (m *fcdManager) RetrieveVStorageObjectAssociations(req *types.RetrieveVStorageObjectAssociations) soap.HasFault {
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

// VCenterUpdateVStorageObjectMetadataExTask sets keys, and does not change the others.
func (m *fcdManager) VCenterUpdateVStorageObjectMetadataExTask(_ *simulator.Context, req *types.VCenterUpdateVStorageObjectMetadataEx_Task) soap.HasFault {
	ref := m.begin(UpdateDiskMetadata, req.Datastore, m.nameOf(req.Id), func(*simulator.Context) (types.AnyType, types.BaseMethodFault) {
		one := m.d.found(req.Id, req.Datastore)
		if one == nil {
			return nil, new(types.NotFound)
		}
		for _, entry := range req.Metadata {
			one.metadata[entry.Key] = entry.Value
		}
		return nil, nil
	})
	return &methods.VCenterUpdateVStorageObjectMetadataEx_TaskBody{Res: &types.VCenterUpdateVStorageObjectMetadataEx_TaskResponse{Returnval: ref}}
}

// DeleteVStorageObjectTask refuses a disk that is attached, and one with snapshots (vsphere-csi-driver#1335).
//
// [doc] InvalidState "if the operation cannot be performed due to the current state of the virtual storage object".
func (m *fcdManager) DeleteVStorageObjectTask(_ *simulator.Context, req *types.DeleteVStorageObject_Task) soap.HasFault {
	ref := m.begin(DeleteDisk, req.Datastore, m.nameOf(req.Id), func(*simulator.Context) (types.AnyType, types.BaseMethodFault) {
		one := m.d.found(req.Id, req.Datastore)
		switch {
		case one == nil:
			return nil, new(types.NotFound)
		case one.Snapshots > 0 || len(m.d.usesOf(one.id)) > 0:
			return nil, new(types.InvalidState)
		}
		delete(m.d.disks, one.id)
		return nil, nil
	})
	return &methods.DeleteVStorageObject_TaskBody{Res: &types.DeleteVStorageObject_TaskResponse{Returnval: ref}}
}

// ExtendDiskTask refuses a disk with snapshots, its own (vsphere-csi-driver#2311) or its VM's, and the size that the disk has already.
func (m *fcdManager) ExtendDiskTask(_ *simulator.Context, req *types.ExtendDisk_Task) soap.HasFault {
	ref := m.begin(ExtendDisk, req.Datastore, m.nameOf(req.Id), func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		one := m.d.found(req.Id, req.Datastore)
		switch {
		case one == nil:
			return nil, new(types.NotFound)
		case req.NewCapacityInMB <= one.capacityMB:
			return nil, &types.InvalidArgument{InvalidProperty: "newCapacityInMB"}
		case m.d.full[one.datastore]:
			return nil, &types.NoDiskSpace{FileFault: types.FileFault{File: one.file}, Datastore: m.d.datastore(one).Name}
		case one.Snapshots > 0:
			return nil, new(types.InvalidState)
		}
		uses := m.d.usesOf(one.id)
		for _, u := range uses {
			on := u.vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff
			if baseOf(u.device) != u.device.Backing || on && m.d.vms.behavior.RefuseOnlineExtend {
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
func (d *fcds) resize(ctx *simulator.Context, u fcdUse, capacityMB int64) {
	larger := *u.device
	larger.CapacityInKB, larger.CapacityInBytes = capacityMB<<10, capacityMB<<20
	d.replace(ctx, u, &larger)
}

// replace replaces a VM's device.
func (d *fcds) replace(ctx *simulator.Context, u fcdUse, by *types.VirtualDisk) {
	devices := slices.Clone(u.vm.Config.Hardware.Device)
	for i, device := range devices {
		if device == types.BaseVirtualDevice(u.device) {
			devices[i] = by
		}
	}
	d.vms.Amend(ctx, u.vm, types.PropertyChange{Name: "config.hardware.device", Val: devices})
}

// CheckChange checks the changes of a VM's devices, and completes changes that attach a first-class disk by its id or by its file.
func (d *fcds) CheckChange(vm *simulator.VirtualMachine, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	index := int32(-1)
	for _, change := range changes {
		index++
		spec := change.GetVirtualDeviceConfigSpec()
		device, is := spec.Device.(*types.VirtualDisk)
		if !is {
			continue
		}
		var fault types.BaseMethodFault
		switch spec.Operation {
		case types.VirtualDeviceConfigSpecOperationAdd:
			if spec.FileOperation == "" {
				fault = d.attach(vm, device, index, changes)
			}
		case types.VirtualDeviceConfigSpecOperationRemove:
			if one := d.disks[idOf(device)]; one != nil && spec.FileOperation == "" {
				ds := d.datastore(one)
				ds.Summary.FreeSpace += device.CapacityInBytes // the simulator subtracted it when the disk was attached
			}
		}
		if fault != nil {
			return fault
		}
	}
	return nil
}

// attach checks that a VM can have a disk.
//
// [doc] VirtualMachine.AttachDisk_Task: InvalidState, "if the operation cannot be performed due to the current state of the virtual
// machine. For example, because the virtual machine's configuration is not available"; FileFault; InvalidDatastore; MissingController.
// kubernetes-sigs/vsphere-csi-driver saw InvalidState for changed block tracking on the disk and off for the VM (#1416), and for a disk
// whose VM was deleted (#221), and ResourceInUse for a disk of another VM (#1175). vCenter doesn't know VMs outside its inventory.
func (d *fcds) attach(vm *simulator.VirtualMachine, device *types.VirtualDisk, index int32, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	b, is := device.Backing.(*flat)
	if !is {
		return nil
	}
	one := d.at(b.FileName)
	if device.VDiskId != nil && (one == nil || one.id != device.VDiskId.Id) || one != nil && d.found(types.ID{Id: one.id}, one.datastore) == nil {
		return &types.FileNotFound{FileFault: types.FileFault{File: b.FileName}}
	}
	if one == nil {
		return nil // not a first-class disk
	}
	if fault := takes(vm, device, index, changes); fault != nil {
		return fault
	}
	ds := d.datastore(one)
	if d.unreachable[one.datastore] || vm.Runtime.Host != nil && !slices.ContainsFunc(ds.Host, func(m types.DatastoreHostMount) bool { return m.Key == *vm.Runtime.Host }) {
		return &types.InvalidDatastore{Datastore: &one.datastore, Name: ds.Name}
	}
	for _, u := range d.usesOf(one.id) {
		if known := d.world.Objects.Get(u.vm.Self) != nil; u.vm.Self == vm.Self || known && !d.vms.behavior.AllowSecondAttach {
			return &types.ResourceInUse{Type: "VStorageObject", Name: one.name}
		}
	}
	if one.Held || one.Tracked && (vm.Config.ChangeTrackingEnabled == nil || !*vm.Config.ChangeTrackingEnabled) {
		return new(types.InvalidState)
	}
	var at object.DatastorePath
	at.FromString(one.file)
	makeFiles(ds.Summary.Url, at.Path) // a VM that was destroyed took all files in its folder with it, also those that Storage vMotion had moved there
	device.VDiskId = &types.ID{Id: one.id}
	device.CapacityInKB, device.CapacityInBytes = one.capacityMB<<10, one.capacityMB<<20
	b.Uuid = one.id // so that guests see the same uuid in each VM
	return nil
}

// scsiID is the unit that a SCSI controller itself uses.
const scsiID = 7

// takes returns the fault if a VM's controller can't have a device, or nil.
//
// [doc] MissingController: "a device is being added to a controller that does not exist"; InvalidDeviceSpec.
func takes(vm *simulator.VirtualMachine, device *types.VirtualDisk, index int32, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	spec := types.InvalidDeviceSpec{InvalidVmConfig: types.InvalidVmConfig{Property: "virtualDeviceSpec.device.controllerKey"}, DeviceIndex: index}
	devices := slices.Clone(vm.Config.Hardware.Device)
	for _, change := range changes {
		devices = append(devices, change.GetVirtualDeviceConfigSpec().Device)
	}
	i := slices.IndexFunc(devices, func(x types.BaseVirtualDevice) bool {
		_, is := x.(types.BaseVirtualController)
		return is && x.GetVirtualDevice().Key == device.ControllerKey
	})
	if i < 0 {
		return &types.MissingController{InvalidDeviceSpec: spec}
	}
	if _, scsi := devices[i].(types.BaseVirtualSCSIController); scsi && device.UnitNumber != nil && *device.UnitNumber == scsiID {
		spec.Property = "virtualDeviceSpec.device.unitNumber"
		return &spec
	}
	return nil
}

// CheckPowerOn returns the fault of a power-on if another VM has one of the disks open, or if a disk's files are missing. ESXi opens the disks of
// a VM exclusively, and returns this fault (vmware/vic#5713, and many other reports).
func (d *fcds) CheckPowerOn(vm *simulator.VirtualMachine) types.BaseMethodFault {
	for _, one := range d.in(vm.Config.Hardware.Device) {
		if one.Lost {
			return &types.FileNotFound{FileFault: types.FileFault{File: one.file}}
		}
		for _, u := range d.usesOf(one.id) {
			if u.vm != vm && u.vm.Self != vm.Self && u.vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
				return &types.GenericVmConfigFault{
					VmConfigFault: types.VmConfigFault{VimFault: types.VimFault{MethodFault: types.MethodFault{FaultMessage: []types.LocalizableMessage{
						{Key: "msg.fileio.lock", Message: "Failed to lock the file"},
						{Key: "msg.disk.noBackEnd", Message: "Cannot open the disk '" + one.file + "' or one of the snapshot disks it depends on. "}}}}},
					Reason: "Failed to lock the file",
				}
			}
		}
	}
	return nil
}

// PoweredOn records that the guest of a VM, which was powered on, wrote to the VM's disks.
func (d *fcds) PoweredOn(vm *simulator.VirtualMachine) {
	for _, one := range d.in(vm.Config.Hardware.Device) {
		one.written = append(one.written, Write{VM: vm.Name, InstanceUUID: vm.Config.InstanceUuid, At: time.Now()})
	}
}

// Destroying returns the fault of a VM's destruction if the files of one of its disks are missing. The caller must call destroyed when the VM has
// been destroyed: destroyed deletes the disks without keepAfterDeleteVm. (The simulator deletes the files of all disks.)
func (d *fcds) Destroying(vm *simulator.VirtualMachine) (destroyed func(), fault types.BaseMethodFault) {
	has := d.in(vm.Config.Hardware.Device)
	for _, one := range has {
		if one.Lost {
			return nil, new(types.NotFound)
		}
	}
	return func() {
		for _, one := range has {
			if !one.Keep {
				delete(d.disks, one.id)
			}
		}
	}, nil
}

// Relocated updates the datastores and files of a VM's disks after Storage vMotion has moved them.
func (d *fcds) Relocated(vm *simulator.VirtualMachine) {
	for device, one := range d.in(vm.Config.Hardware.Device) {
		if b := baseOf(device); b != nil && b.Datastore != nil {
			one.file, one.datastore = b.FileName, *b.Datastore
		}
	}
}

// Everywhere lists all VMs, including those outside the inventory. The caller holds the world lock.
func (v *inventory) Everywhere() (all []*simulator.VirtualMachine) {
	for _, e := range v.objects.All("VirtualMachine") {
		all = append(all, e.(*simulator.VirtualMachine))
	}
	for _, d := range v.removedVMs {
		all = append(all, d.vm)
	}
	return all
}

// destroy destroys a VM. The caller holds the world lock for writing.
func (v *inventory) destroy(ctx *simulator.Context, vm *simulator.VirtualMachine) (types.AnyType, types.BaseMethodFault) {
	destroyed, fault := v.disks.Destroying(vm)
	if fault != nil {
		return nil, fault
	}
	res, fault := v.inner(ctx, vm.Self, func() soap.HasFault { return vm.DestroyTask(ctx, &types.Destroy_Task{This: vm.Self}) })
	if fault == nil {
		destroyed()
	}
	return res, fault
}
