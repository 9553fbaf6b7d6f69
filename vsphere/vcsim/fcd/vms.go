package fcd

import (
	"slices"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/backing"
)

// CheckChange checks the changes of a VM's devices, and completes those that attach a first-class disk, whether they name its id or its file.
func (d *Disks) CheckChange(vm *simulator.VirtualMachine, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
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
		case types.VirtualDeviceConfigSpecOperationEdit:
			fault = d.grow(vm, device)
		case types.VirtualDeviceConfigSpecOperationRemove:
			if one := d.disks[idOf(device)]; one != nil && spec.FileOperation == "" {
				ds := d.datastore(one)
				d.world.Objects.WithLock(d.world.Context(), ds.Self, func() { ds.Summary.FreeSpace += device.CapacityInBytes }) // the simulator took it at the attach
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
// whose VM was deleted (#221); ResourceInUse for one that another VM has (#1175). vCenter knows nothing of VMs outside its inventory.
func (d *Disks) attach(vm *simulator.VirtualMachine, device *types.VirtualDisk, index int32, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	b, is := device.Backing.(*backing.Flat)
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
		if known := d.world.Objects.Get(u.vm.Self) != nil; u.vm.Self == vm.Self || known && !d.second {
			return &types.ResourceInUse{Type: "VStorageObject", Name: one.name}
		}
	}
	if one.stale || one.tracked && (vm.Config.ChangeTrackingEnabled == nil || !*vm.Config.ChangeTrackingEnabled) {
		return new(types.InvalidState)
	}
	var at object.DatastorePath
	at.FromString(one.file)
	backing.MakeFiles(ds.Summary.Url, at.Path) // a VM that was destroyed took all files in its folder with it, also those that Storage vMotion had moved there
	device.VDiskId = &types.ID{Id: one.id}
	device.CapacityInKB, device.CapacityInBytes = one.capacityMB<<10, one.capacityMB<<20
	b.Uuid = one.id // the guest sees the same disk in each VM
	return nil
}

// scsiID is the unit of a SCSI controller itself.
const scsiID = 7

// takes reports why a VM's controller does not take a device.
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

// grow keeps a disk's size that a reconfigure of its VM changes.
func (d *Disks) grow(vm *simulator.VirtualMachine, device *types.VirtualDisk) types.BaseMethodFault {
	for had, one := range d.in(vm.Config.Hardware.Device) {
		if had.Key != device.Key || device.CapacityInBytes <= had.CapacityInBytes {
			continue
		}
		if one.snapshots > 0 || base(had) != had.Backing {
			return new(types.InvalidState)
		}
		one.capacityMB = device.CapacityInBytes >> 20
	}
	return nil
}

// CheckPowerOn returns the fault of a power-on if another VM has one of the disks open, or if one is not there. ESXi opens the disks of a VM
// exclusively, and fails like this (vmware/vic#5713, and the messages of many others).
func (d *Disks) CheckPowerOn(vm *simulator.VirtualMachine) types.BaseMethodFault {
	for _, one := range d.in(vm.Config.Hardware.Device) {
		if one.lost {
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

// PoweredOn records that the guest of a VM that was powered on wrote to its disks.
func (d *Disks) PoweredOn(vm *simulator.VirtualMachine) {
	for _, one := range d.in(vm.Config.Hardware.Device) {
		one.written = append(one.written, Write{VM: vm.Name, InstanceUUID: vm.Config.InstanceUuid, At: time.Now()})
	}
}

// Destroying returns the fault of a VM's destruction if one of its disks is not there, and what is to happen to its disks when it
// has been destroyed: those without keepAfterDeleteVm go. (The simulator deletes the files of all.)
func (d *Disks) Destroying(vm *simulator.VirtualMachine) (destroyed func(), fault types.BaseMethodFault) {
	has := d.in(vm.Config.Hardware.Device)
	for _, one := range has {
		if one.lost {
			return nil, new(types.NotFound)
		}
	}
	return func() {
		for _, one := range has {
			if !one.keep {
				delete(d.disks, one.id)
			}
		}
	}, nil
}

// Relocated updates where the disks of a VM are, after Storage vMotion has moved them.
func (d *Disks) Relocated(vm *simulator.VirtualMachine) {
	for device, one := range d.in(vm.Config.Hardware.Device) {
		if b := base(device); b != nil && b.Datastore != nil {
			one.file, one.datastore = b.FileName, *b.Datastore
		}
	}
}
