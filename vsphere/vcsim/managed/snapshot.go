package managed

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/backing"
)

// CreateSnapshotTask has a latency and rejects a template, which the simulator allows: an operator has to convert it to a VM first. The
// fault NotSupported is not documented.
func (vm *machine) CreateSnapshotTask(_ *simulator.Context, req *types.CreateSnapshot_Task) soap.HasFault {
	ref := vm.work(CreateSnapshot, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		if vm.Config.Template {
			return nil, new(types.NotSupported)
		}
		return vm.v.snapshot(ctx, vm.VirtualMachine, req)
	})
	return &methods.CreateSnapshot_TaskBody{Res: &types.CreateSnapshot_TaskResponse{Returnval: ref}}
}

// snapshot takes a snapshot. From then on the VM writes to deltas of its disks.
func (v *Objects) snapshot(ctx *simulator.Context, vm *simulator.VirtualMachine, req *types.CreateSnapshot_Task) (types.AnyType, types.BaseMethodFault) {
	made, fault := v.inner(ctx, vm.Self, func() soap.HasFault { return vm.CreateSnapshotTask(ctx, req) })
	if fault == nil {
		v.rebase(ctx, vm, backing.Delta)
	}
	return made, fault
}

// RemoveAllSnapshotsTask has a latency and merges the deltas.
func (vm *machine) RemoveAllSnapshotsTask(_ *simulator.Context, req *types.RemoveAllSnapshots_Task) soap.HasFault {
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		res, fault := vm.v.inner(ctx, vm.Self, func() soap.HasFault { return vm.VirtualMachine.RemoveAllSnapshotsTask(ctx, req) })
		if fault == nil {
			vm.v.rebase(ctx, vm.VirtualMachine, backing.Merged)
		}
		return res, fault
	}
	return &methods.RemoveAllSnapshots_TaskBody{Res: &types.RemoveAllSnapshots_TaskResponse{Returnval: vm.work(RemoveSnapshots, do)}}
}

// AddSnapshot takes a snapshot of a VM or template. (In a real vCenter, a template must become a VM for this.)
func (v *Objects) AddSnapshot(where, name string) (ref types.ManagedObjectReference, err error) {
	err = v.changeVM("take a snapshot of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		made, fault := v.snapshot(ctx, vm, &types.CreateSnapshot_Task{This: vm.Self, Name: name})
		if fault == nil {
			ref = made.(types.ManagedObjectReference)
			v.world.Mark(vm.Self)
		}
		return fault
	})
	return ref, err
}

// clonePoint is the source configuration of a clone, and whether the clone shares the disks.
type clonePoint struct {
	config *types.VirtualMachineConfigInfo
	linked bool
}

// pointOf returns the part of a source that spec clones.
//
// [doc] VirtualMachineCloneSpec.snapshot: "the newly created virtual machine will have the same configuration as the virtual machine at the
// time the snapshot was taken. If this property is not set then the clone is based off of the virtual machine's current configuration".
// VirtualMachineRelocateDiskMoveOptions, createNewChildDiskBacking: "for a clone this option is only valid when cloning from a snapshot".
// moveChildMostDiskBacking shares the parents of the source's disk, if it has any.
func (v *Objects) pointOf(source *simulator.VirtualMachine, spec types.VirtualMachineCloneSpec) (clonePoint, types.BaseMethodFault) {
	point := clonePoint{config: source.Config}
	move := types.VirtualMachineRelocateDiskMoveOptions(spec.Location.DiskMoveType)
	if move != "" && !slices.Contains(move.Values(), move) {
		return point, &types.InvalidArgument{InvalidProperty: "spec.location.diskMoveType"}
	}
	point.linked = move == types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking
	if spec.Snapshot == nil {
		if point.linked {
			return point, &types.InvalidArgument{InvalidProperty: "spec.location.diskMoveType"}
		}
		return point, nil
	}
	snapshot, ok := v.objects.Get(*spec.Snapshot).(*simulator.VirtualMachineSnapshot)
	if !ok {
		return point, &types.ManagedObjectNotFound{Obj: *spec.Snapshot}
	}
	if snapshot.Vm != source.Self {
		return point, &types.InvalidArgument{InvalidProperty: "spec.snapshot"}
	}
	point.config = &snapshot.Config
	return point, nil
}

// link makes a clone's disks children of the source's.
func link(vm *simulator.VirtualMachine, point clonePoint) {
	parents := backing.Disks(point.config.Hardware.Device)
	for i, disk := range backing.Disks(vm.Config.Hardware.Device) {
		if i >= len(parents) {
			return
		}
		child, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
		parent, is := parents[i].Backing.(*types.VirtualDiskFlatVer2BackingInfo)
		if ok && is {
			shared := *parent
			child.Parent = &shared
		}
	}
}
