package managed

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// RelocateVMTask has a latency. The simulator's waits for another task with the VM locked, so it must run under the world lock; and it does
// not move single disks.
//
// [doc] VirtualMachineRelocateSpec.disk: "An optional list that allows specifying the datastore location for each virtual disk".
func (vm *machine) RelocateVMTask(_ *simulator.Context, req *types.RelocateVM_Task) soap.HasFault {
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		if _, fault := vm.v.policiesOf(vm.VirtualMachine, req.Spec); fault != nil {
			return nil, fault
		}
		res, fault := vm.v.inner(ctx, vm.Self, func() soap.HasFault { return vm.VirtualMachine.RelocateVMTask(ctx, req) })
		for _, at := range req.Spec.Disk {
			if fault == nil {
				vm.v.moveDisk(ctx, vm.VirtualMachine, at)
			}
		}
		vm.v.disks.Relocated(vm.VirtualMachine)
		return res, fault
	}
	return &methods.RelocateVM_TaskBody{Res: &types.RelocateVM_TaskResponse{Returnval: vm.work(Relocate, do)}}
}

// PromoteDisksTask has a latency. The simulator's sleeps for one second per GB with the VM locked.
//
// [doc] PromoteDisks_Task: "Promotes disks on this virtual machine that have delta disk backings"; if unlink is true, "any disk
// backing which is shared by multiple virtual machines is copied so that this virtual machine has its own unshared version";
// disks: "If this array is empty, then all disks are used".
func (vm *machine) PromoteDisksTask(_ *simulator.Context, req *types.PromoteDisks_Task) soap.HasFault {
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		devices := slices.Clone(vm.Config.Hardware.Device)
		for i, device := range devices {
			disk, is := device.(*types.VirtualDisk)
			if !is || !req.Unlink || !selects(req.Disks, disk.Key) {
				continue
			}
			if backing, is := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); is {
				alone, own := *disk, *backing
				own.Parent, alone.Backing = nil, &own
				devices[i] = &alone
			}
		}
		vm.v.Amend(ctx, vm.VirtualMachine, types.PropertyChange{Name: "config.hardware.device", Val: devices})
		return nil, nil
	}
	return &methods.PromoteDisks_TaskBody{Res: &types.PromoteDisks_TaskResponse{Returnval: vm.work(PromoteDisks, do)}}
}

func selects(disks []types.VirtualDisk, key int32) bool {
	return len(disks) == 0 || slices.ContainsFunc(disks, func(d types.VirtualDisk) bool { return d.Key == key })
}
