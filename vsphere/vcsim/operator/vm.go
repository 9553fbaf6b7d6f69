package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
)

// newVM returns the spec of a small VM with a disk and a network adapter.
func newVM(name, datastore string) (types.VirtualMachineConfigSpec, error) {
	spec := types.VirtualMachineConfigSpec{
		Name: name, GuestId: string(types.VirtualMachineGuestOsIdentifierOtherLinux64Guest), NumCPUs: 1, MemoryMB: 1024,
		CpuHotAddEnabled: types.NewBool(false), CpuHotRemoveEnabled: types.NewBool(false), MemoryHotAddEnabled: types.NewBool(false),
		Files: &types.VirtualMachineFileInfo{VmPathName: fmt.Sprintf("[%s]", datastore)},
	}
	var devices object.VirtualDeviceList
	scsi, err := devices.CreateSCSIController("pvscsi")
	if err != nil {
		return spec, err
	}
	disk := devices.CreateDisk(scsi.(types.BaseVirtualController), types.ManagedObjectReference{}, "")
	disk.CapacityInKB = 10 << 20
	backing := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	backing.Uuid, backing.ContentId = uuid.NewString(), strings.ReplaceAll(uuid.NewString(), "-", "") // 32 hexadecimal digits, as in vCenter
	nic, err := devices.CreateEthernetCard("vmxnet3", &types.VirtualEthernetCardNetworkBackingInfo{
		VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: "VM Network"},
	})
	if err != nil {
		return spec, err
	}
	spec.DeviceChange, err = append(devices, scsi, disk, nic).ConfigSpec(types.VirtualDeviceConfigSpecOperationAdd)
	return spec, err
}

// AddVM creates an unmanaged, powered-off VM in a folder.
func (o *Operator) AddVM(folderPath, name string) (types.ManagedObjectReference, error) {
	ref, err := o.addVM(context.Background(), folderPath, name)
	if err != nil {
		return ref, fmt.Errorf("add VM %s in %s: %w", name, folderPath, err)
	}
	return ref, nil
}

func (o *Operator) addVM(ctx context.Context, folderPath, name string) (ref types.ManagedObjectReference, err error) {
	folder, err := o.Find(folderPath)
	if err != nil {
		return ref, err
	}
	datastore, pool, err := o.FirstPlace(strings.Split(folderPath, "/")[1])
	if err != nil {
		return ref, err
	}
	spec, err := newVM(name, datastore)
	if err != nil {
		return ref, err
	}
	task, err := object.NewFolder(o.admin.Client, folder).CreateVM(ctx, spec, object.NewResourcePool(o.admin.Client, pool), nil)
	if err != nil {
		return ref, err
	}
	info, err := o.Result(task)
	if err != nil {
		return ref, err
	}
	return info.Result.(types.ManagedObjectReference), nil
}

// AddTemplate creates a VM template in a folder.
func (o *Operator) AddTemplate(folderPath, name string) (types.ManagedObjectReference, error) {
	ref, err := o.AddVM(folderPath, name)
	if err != nil {
		return ref, err
	}
	return ref, object.NewVirtualMachine(o.admin.Client, ref).MarkAsTemplate(context.Background())
}

// MoveDisk moves one disk of the VM with a path or name to the datastore at a path, by Storage vMotion.
func (o *Operator) MoveDisk(where string, key int32, datastorePath string) error {
	return o.onVM("move a disk of", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		datastore, err := o.Find(datastorePath)
		if err != nil {
			return nil, err
		}
		return vm.Relocate(ctx, types.VirtualMachineRelocateSpec{
			Disk: []types.VirtualMachineRelocateSpecDiskLocator{{DiskId: key, Datastore: datastore}},
		}, types.VirtualMachineMovePriorityDefaultPriority)
	})
}

// AttachDisk also attaches the first disk of one VM to another one and returns its key there. The VMs are given by path or name.
func (o *Operator) AttachDisk(of, to string) (key int32, err error) {
	ctx := context.Background()
	from, err := o.Find(of)
	if err != nil {
		return 0, fmt.Errorf("attach a disk of %s: %w", of, err)
	}
	devices, err := object.NewVirtualMachine(o.admin.Client, from).Device(ctx)
	if err != nil {
		return 0, fmt.Errorf("attach a disk of %s: %w", of, err)
	}
	disks := devices.SelectByType((*types.VirtualDisk)(nil))
	if len(disks) == 0 {
		return 0, fmt.Errorf("attach a disk of %s: no disk", of)
	}
	disk := disks[0].(*types.VirtualDisk)
	err = o.onVM("attach a disk to", to, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		has, err := vm.Device(ctx)
		if err != nil {
			return nil, err
		}
		controller, err := has.FindDiskController("")
		if err != nil {
			return nil, err
		}
		has.AssignController(disk, controller)
		disk.Key = 2000 + *disk.UnitNumber // as ESXi numbers the disks of the first SCSI controller
		key = disk.Key
		return vm.Reconfigure(ctx, types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
			&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: disk}}})
	})
	return key, err
}
