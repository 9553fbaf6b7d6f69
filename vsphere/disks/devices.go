package disks

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// VM is a VM as it was read. A reconfigure fails with ReasonConcurrentAccess if the VM's configuration has changed since the read.
type VM struct {
	MoRef         string
	ChangeVersion string
	Hardware      string // "vmx-19"; empty if unknown
	// Options are extraConfig entries that the same change writes.
	Options []types.BaseOptionValue
}

// Place is the controller and unit of a disk in a VM.
type Place struct {
	Controller int32 // the key of the controller's device
	Unit       int32
}

func (p Place) String() string { return fmt.Sprintf("%d:%d", p.Controller, p.Unit) }

// Attachment is a disk and its place.
type Attachment struct {
	Disk  Disk // read right before, because the reconfigure names the disk's file by its path
	Place Place
}

// Attach attaches disks to a VM, all or none of them, in one reconfigure guarded by the changeVersion. Success does not prove which disks
// the VM has: read its devices, and look for the ids (Attached).
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

// attachChange is the device change that attaches a disk. It has no file operation, so that vCenter uses the file as it is. vCenter replaces
// the device's key.
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

// Detach detaches disks from a VM, all or none of them, in one reconfigure guarded by the changeVersion, and keeps their files. devices are
// the VM's, read with the changeVersion. Detach ignores disks that are not among them; if none is, it writes only vm.Options.
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

// DetachChange is the device change that detaches a disk from a VM. It has no file operation, so that vCenter keeps the file.
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
