package disks

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// VM is a VM as it was read: a reconfigure fails with ReasonConcurrentAccess if its configuration has changed since.
type VM struct {
	MoRef         string
	ChangeVersion string
	Hardware      string // "vmx-19"; empty if unknown
	// Options are extraConfig entries that the same change writes.
	Options []types.BaseOptionValue
}

// Place is where a disk goes in a VM.
type Place struct {
	Controller int32 // the key of the controller's device
	Unit       int32
}

func (p Place) String() string { return fmt.Sprintf("%d:%d", p.Controller, p.Unit) }

// Attachment is a disk and its place.
type Attachment struct {
	Disk  Disk // read right before: the file is named by its path
	Place Place
}

// Attach attaches disks to a VM, all or none of them, in one guarded reconfigure. Success says what vCenter did, not what
// it attached: read the VM's devices, and look for the ids (Attached).
func (d *FirstClass) Attach(ctx context.Context, vm VM, disks ...Attachment) error {
	spec := types.VirtualMachineConfigSpec{ChangeVersion: vm.ChangeVersion}
	var all []Disk
	for i, a := range disks {
		all = append(all, a.Disk)
		spec.DeviceChange = append(spec.DeviceChange, attachChange(a, nextKey-int32(i)))
	}
	err := d.reconfigure(ctx, vm, spec)
	return refused(attaching, AttachRefused(err, vm.Hardware, all...))
}

// attachChange is the device change that attaches a disk: without a file operation, so that the file is used as it is. vCenter gives the
// device another key.
func attachChange(a Attachment, key int32) *types.VirtualDeviceConfigSpec {
	unit, id := a.Place.Unit, a.Disk.id()
	return &types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationAdd,
		Device: &types.VirtualDisk{
			VirtualDevice: types.VirtualDevice{Key: key, ControllerKey: a.Place.Controller, UnitNumber: &unit,
				Backing: &types.VirtualDiskFlatVer2BackingInfo{
					VirtualDeviceFileBackingInfo: types.VirtualDeviceFileBackingInfo{FileName: a.Disk.File},
					DiskMode:                     string(types.VirtualDiskModePersistent),
				}},
			VDiskId:         &id,
			CapacityInKB:    a.Disk.CapacityMB << 10,
			CapacityInBytes: a.Disk.CapacityMB << 20,
		},
	}
}

// Detach takes disks from a VM, all or none of them, and keeps them, in one guarded reconfigure. devices are the VM's, read with the
// changeVersion. A disk that is not among them is left out; without any, only vm.Options are written.
func (d *FirstClass) Detach(ctx context.Context, vm VM, devices []types.BaseVirtualDevice, ids ...string) error {
	spec := types.VirtualMachineConfigSpec{ChangeVersion: vm.ChangeVersion, ExtraConfig: vm.Options}
	for _, id := range ids {
		if device := Attached(devices, id); device != nil {
			spec.DeviceChange = append(spec.DeviceChange, DetachChange(device))
		}
	}
	if len(spec.DeviceChange) == 0 && len(spec.ExtraConfig) == 0 {
		return nil
	}
	return refused(detaching, d.reconfigure(ctx, vm, spec))
}

// DetachChange is the device change that takes a disk from a VM and keeps it: without a file operation.
func DetachChange(device *types.VirtualDisk) *types.VirtualDeviceConfigSpec {
	return &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: device}
}

// Attached returns the device of the first-class disk with that id; nil if there is none.
func Attached(devices []types.BaseVirtualDevice, id string) *types.VirtualDisk {
	for _, device := range devices {
		if disk, is := device.(*types.VirtualDisk); is && id != "" && disk.VDiskId != nil && disk.VDiskId.Id == id {
			return disk
		}
	}
	return nil
}

func (d *FirstClass) reconfigure(ctx context.Context, vm VM, spec types.VirtualMachineConfigSpec) error {
	_, err := d.calls.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.ReconfigVM_Task(ctx, s.Vim, &types.ReconfigVM_Task{This: types.ManagedObjectReference{Type: "VirtualMachine", Value: vm.MoRef}, Spec: spec})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	return err
}
