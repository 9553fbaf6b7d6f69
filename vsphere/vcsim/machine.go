package vcsim

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// machine is a VM during one call.
type machine struct {
	*simulator.VirtualMachine
	*guard
}

// task begins a task that does what the simulator's own does.
func (vm *machine) task(kind Kind, call func(*simulator.Context) soap.HasFault) types.ManagedObjectReference {
	return vm.work(kind, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		return vm.v.inner(ctx, vm.Self, func() soap.HasFault { return call(ctx) })
	})
}

func (vm *machine) work(kind Kind, do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)) types.ManagedObjectReference {
	return vm.v.begin(vm.guard, work{kind: kind, entity: vm.VirtualMachine, name: vm.Name, do: do})
}

// PowerOnVMTask takes its time.
func (vm *machine) PowerOnVMTask(_ *simulator.Context, req *types.PowerOnVM_Task) soap.HasFault {
	return &methods.PowerOnVM_TaskBody{Res: &types.PowerOnVM_TaskResponse{
		Returnval: vm.task(PowerOn, func(ctx *simulator.Context) soap.HasFault { return vm.VirtualMachine.PowerOnVMTask(ctx, req) }),
	}}
}

// PowerOffVMTask takes its time.
func (vm *machine) PowerOffVMTask(_ *simulator.Context, req *types.PowerOffVM_Task) soap.HasFault {
	return &methods.PowerOffVM_TaskBody{Res: &types.PowerOffVM_TaskResponse{
		Returnval: vm.task(PowerOff, func(ctx *simulator.Context) soap.HasFault { return vm.VirtualMachine.PowerOffVMTask(ctx, req) }),
	}}
}

// SuspendVMTask takes its time.
func (vm *machine) SuspendVMTask(_ *simulator.Context, req *types.SuspendVM_Task) soap.HasFault {
	return &methods.SuspendVM_TaskBody{Res: &types.SuspendVM_TaskResponse{
		Returnval: vm.task(Suspend, func(ctx *simulator.Context) soap.HasFault { return vm.VirtualMachine.SuspendVMTask(ctx, req) }),
	}}
}

// ShutdownGuest returns at once, and the guest halts when it has done so: [doc] "Issues a command to
// the guest operating system ... Returns immediately and does not wait for the guest".
func (vm *machine) ShutdownGuest(_ *simulator.Context, req *types.ShutdownGuest) soap.HasFault {
	if state := vm.Runtime.PowerState; state != types.VirtualMachinePowerStatePoweredOn {
		return &methods.ShutdownGuestBody{Fault_: simulator.Fault("", &types.InvalidPowerState{
			RequestedState: types.VirtualMachinePowerStatePoweredOn, ExistingState: state,
		})}
	}
	vm.task(ShutdownGuest, func(ctx *simulator.Context) soap.HasFault { return vm.VirtualMachine.ShutdownGuest(ctx, req) })
	return &methods.ShutdownGuestBody{Res: new(types.ShutdownGuestResponse)}
}

// DestroyTask takes its time.
func (vm *machine) DestroyTask(_ *simulator.Context, req *types.Destroy_Task) soap.HasFault {
	return &methods.Destroy_TaskBody{Res: &types.Destroy_TaskResponse{
		Returnval: vm.task(Destroy, func(ctx *simulator.Context) soap.HasFault { return vm.VirtualMachine.DestroyTask(ctx, req) }),
	}}
}

// RenameTask refuses a taken name as documented, and renames the configuration, too.
//
// [doc] Rename_Task: DuplicateName if another object in the same folder has the target name.
func (vm *machine) RenameTask(_ *simulator.Context, req *types.Rename_Task) soap.HasFault {
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		name := escape(req.NewName)
		if vm.Parent != nil { // else it is in a vApp
			if fault := vm.v.free(place{*vm.Parent, name}, &vm.Self); fault != nil {
				return nil, fault
			}
		}
		vm.v.objects.AtomicUpdate(ctx, vm.VirtualMachine, []types.PropertyChange{
			{Name: "name", Val: name}, {Name: "config.name", Val: name}, {Name: "summary.config.name", Val: name},
		})
		return nil, nil
	}
	return &methods.Rename_TaskBody{Res: &types.Rename_TaskResponse{Returnval: vm.work(Rename, do)}}
}

// ReconfigVMTask checks what the simulator does not: names, changeVersion, and changes of a VM that runs.
func (vm *machine) ReconfigVMTask(_ *simulator.Context, req *types.ReconfigVM_Task) soap.HasFault {
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		spec := req.Spec
		// [doc] ConfigSpec.changeVersion: "If set, the config version is checked before applying changes.
		// If not the same ... a ConcurrentAccess fault is thrown".
		if spec.ChangeVersion != "" && spec.ChangeVersion != vm.Config.ChangeVersion {
			return nil, new(types.ConcurrentAccess)
		}
		if spec.Name != "" && vm.Parent != nil {
			spec.Name = escape(spec.Name)
			if fault := vm.v.free(place{*vm.Parent, spec.Name}, &vm.Self); fault != nil {
				return nil, fault
			}
		}
		if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
			if fault := hotPlug(vm.Config, spec); fault != nil {
				return nil, fault
			}
		}
		spec.ChangeVersion = ""
		return nil, vm.v.configure(ctx, vm.VirtualMachine, spec)
	}
	return &methods.ReconfigVM_TaskBody{Res: &types.ReconfigVM_TaskResponse{Returnval: vm.work(Reconfigure, do)}}
}

// hotPlug says why a running VM cannot be given this hardware.
//
// [doc] ReconfigVM_Task: CpuHotPlugNotSupported, MemoryHotPlugNotSupported: the current configuration
// does not support hot-plugging; InvalidPowerState: the VM is on, and the hardware cannot change like
// that; VirtualMachineConfigInfo.cpuHotAddEnabled, cpuHotRemoveEnabled, memoryHotAddEnabled.
func hotPlug(c *types.VirtualMachineConfigInfo, spec types.VirtualMachineConfigSpec) types.BaseMethodFault {
	on := &types.InvalidPowerState{
		RequestedState: types.VirtualMachinePowerStatePoweredOff, ExistingState: types.VirtualMachinePowerStatePoweredOn,
	}
	cpus, memory := spec.NumCPUs, spec.MemoryMB
	switch {
	case cpus > c.Hardware.NumCPU && !isTrue(c.CpuHotAddEnabled),
		cpus != 0 && cpus < c.Hardware.NumCPU && !isTrue(c.CpuHotRemoveEnabled):
		return new(types.CpuHotPlugNotSupported)
	case memory > int64(c.Hardware.MemoryMB) && !isTrue(c.MemoryHotAddEnabled):
		return new(types.MemoryHotPlugNotSupported)
	case memory != 0 && memory < int64(c.Hardware.MemoryMB): // there is no hot-remove of memory
		return on
	case differs(spec.CpuHotAddEnabled, c.CpuHotAddEnabled), differs(spec.CpuHotRemoveEnabled, c.CpuHotRemoveEnabled),
		differs(spec.MemoryHotAddEnabled, c.MemoryHotAddEnabled):
		return on
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

func differs(want, have *bool) bool { return want != nil && *want != isTrue(have) }

// configure applies spec. The caller holds the world.
func (v *VCenter) configure(ctx *simulator.Context, vm *simulator.VirtualMachine, spec types.VirtualMachineConfigSpec) types.BaseMethodFault {
	// An empty value removes a key; the simulator would add it, if there is none to remove.
	spec.ExtraConfig = slices.DeleteFunc(slices.Clone(spec.ExtraConfig), func(o types.BaseOptionValue) bool {
		return o.GetOptionValue().Value == "" && !slices.ContainsFunc(vm.Config.ExtraConfig, func(have types.BaseOptionValue) bool {
			return have.GetOptionValue().Key == o.GetOptionValue().Key
		})
	})
	_, fault := v.inner(ctx, vm.Self, func() soap.HasFault {
		return vm.ReconfigVMTask(ctx, &types.ReconfigVM_Task{This: vm.Self, Spec: spec})
	})
	return fault
}
