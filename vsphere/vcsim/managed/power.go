package managed

import (
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/backing"
)

// power begins a task in which the simulator changes the power state.
func (vm *machine) power(kind Kind, call func(*simulator.Context) soap.HasFault) types.ManagedObjectReference {
	return vm.work(kind, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		return vm.changePower(ctx, func() soap.HasFault { return call(ctx) })
	})
}

// powerOn begins a power-on task with this kind.
func (vm *machine) powerOn(as Kind) types.ManagedObjectReference {
	return vm.v.begin(vm.Guard, work{kind: PowerOn, as: as, entity: vm.VirtualMachine, name: vm.Name, pause: vm.awaitAnswer,
		do: func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
			fault := vm.v.fullHost(vm.VirtualMachine)
			if as == PowerOn {
				fault = vm.v.placeAlone(ctx, vm.VirtualMachine)
			}
			if fault == nil {
				fault = vm.v.disks.CheckPowerOn(vm.VirtualMachine)
			}
			if fault != nil {
				return nil, fault
			}
			return vm.changePower(ctx, func() soap.HasFault {
				return vm.VirtualMachine.PowerOnVMTask(ctx, &types.PowerOnVM_Task{This: vm.Self})
			})
		}})
}

func (vm *machine) changePower(ctx *simulator.Context, call func() soap.HasFault) (types.AnyType, types.BaseMethodFault) {
	before := vm.Runtime.PowerState
	res, fault := vm.v.inner(ctx, vm.Self, call)
	if vm.Runtime.PowerState != before {
		vm.v.powered(ctx, vm.VirtualMachine, before)
	}
	return res, fault
}

// powered updates what depends on a changed power state. The caller holds the world lock.
//
// [doc] VirtualMachineRuntimeInfo.bootTime: "updated when the virtual machine is powered on from the poweredOff state, and is cleared when
// the virtual machine is powered off ... not updated when a virtual machine is resumed". The simulator sets it only in the summary and
// clears it at suspend.
//
// The changeVersion changes, too: vCenter writes the configuration file (seen in vmware/vic, pull request 2510).
func (v *Objects) powered(ctx *simulator.Context, vm *simulator.VirtualMachine, before types.VirtualMachinePowerState) {
	const on, off = types.VirtualMachinePowerStatePoweredOn, types.VirtualMachinePowerStatePoweredOff
	var changes []types.PropertyChange
	var boot types.AnyType
	if vm.Runtime.BootTime != nil {
		boot = *vm.Runtime.BootTime
	}
	now := vm.Runtime.PowerState
	switch {
	case now == on && before == off:
		boot = v.bootTime()
		v.disks.PoweredOn(vm)
		limit, increment := hotPlugMemory(vm.Config)
		changes = append(changes,
			types.PropertyChange{Name: "config.hardware.device", Val: backing.Rewritten(vm.Config.Hardware.Device)},
			types.PropertyChange{Name: "config.hardware.numCoresPerSocket", Val: coresAtPowerOn(vm.Config)},
			types.PropertyChange{Name: "config.hotPlugMemoryLimit", Val: limit},
			types.PropertyChange{Name: "config.hotPlugMemoryIncrementSize", Val: increment})
	case now == off:
		boot = nil
		changes = append(changes,
			types.PropertyChange{Name: "config.hotPlugMemoryLimit", Val: int64(0)},
			types.PropertyChange{Name: "config.hotPlugMemoryIncrementSize", Val: int64(0)})
	}
	v.objects.AtomicUpdate(ctx, vm, append(changes,
		types.PropertyChange{Name: "config.changeVersion", Val: laterVersion(vm)},
		types.PropertyChange{Name: "runtime.bootTime", Val: boot},
		types.PropertyChange{Name: "summary.runtime.bootTime", Val: boot}))
	if now == on {
		if v.customized[vm.Self] != nil { // the simulator reports it at once; a guest does later
			v.report(ctx, vm, func(g *types.GuestInfo) { setAddress(g, ""); g.HostName = "" })
			v.setCustomizationStatus(ctx, vm, types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_PENDING)
		}
		v.boot(ctx, vm)
	} else {
		v.halt(ctx, vm)
	}
}

// bootTime returns the current time, later than all others, in microseconds as vCenter's.
func (v *Objects) bootTime() time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(v.lastBoot) {
		now = v.lastBoot.Add(time.Microsecond)
	}
	v.lastBoot = now
	return now
}

// PowerOnVMTask has a latency.
func (vm *machine) PowerOnVMTask(*simulator.Context, *types.PowerOnVM_Task) soap.HasFault {
	return &methods.PowerOnVM_TaskBody{Res: &types.PowerOnVM_TaskResponse{Returnval: vm.powerOn(PowerOn)}}
}

// PowerOffVMTask has a latency.
func (vm *machine) PowerOffVMTask(_ *simulator.Context, req *types.PowerOffVM_Task) soap.HasFault {
	return &methods.PowerOffVM_TaskBody{Res: &types.PowerOffVM_TaskResponse{
		Returnval: vm.power(PowerOff, func(ctx *simulator.Context) soap.HasFault { return vm.VirtualMachine.PowerOffVMTask(ctx, req) }),
	}}
}

// SuspendVMTask has a latency.
func (vm *machine) SuspendVMTask(_ *simulator.Context, req *types.SuspendVM_Task) soap.HasFault {
	return &methods.SuspendVM_TaskBody{Res: &types.SuspendVM_TaskResponse{
		Returnval: vm.power(Suspend, func(ctx *simulator.Context) soap.HasFault { return vm.VirtualMachine.SuspendVMTask(ctx, req) }),
	}}
}

// ResetVMTask restarts the guest; the power state does not change. The simulator powers the VM off and on.
//
// [doc] ResetVM_Task: "Resets power on this virtual machine. If the current state is poweredOn, then
// this method first performs powerOff(hard)"; InvalidPowerState if it is suspended or powered off.
func (vm *machine) ResetVMTask(_ *simulator.Context, _ *types.ResetVM_Task) soap.HasFault {
	ref := vm.work(Reset, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		if fault := mustBeOn(vm.VirtualMachine); fault != nil {
			return nil, fault
		}
		vm.v.reboot(ctx, vm.VirtualMachine)
		return nil, nil
	})
	return &methods.ResetVM_TaskBody{Res: &types.ResetVM_TaskResponse{Returnval: ref}}
}

// ShutdownGuest returns at once; the guest halts after the latency.
//
// [doc] ShutdownGuest: "Issues a command to the guest operating system ... Returns immediately and does
// not wait for the guest"; ToolsUnavailable if VMware Tools do not run.
func (vm *machine) ShutdownGuest(_ *simulator.Context, req *types.ShutdownGuest) soap.HasFault {
	fault := vm.askGuest(ShutdownGuest, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		return vm.changePower(ctx, func() soap.HasFault { return vm.VirtualMachine.ShutdownGuest(ctx, req) })
	})
	if fault != nil {
		return &methods.ShutdownGuestBody{Fault_: simulator.Fault("", fault)}
	}
	return &methods.ShutdownGuestBody{Res: new(types.ShutdownGuestResponse)}
}

// RebootGuest returns at once; the guest restarts after the latency.
func (vm *machine) RebootGuest(_ *simulator.Context, _ *types.RebootGuest) soap.HasFault {
	fault := vm.askGuest(RebootGuest, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		vm.v.reboot(ctx, vm.VirtualMachine)
		return nil, nil
	})
	if fault != nil {
		return &methods.RebootGuestBody{Fault_: simulator.Fault("", fault)}
	}
	return &methods.RebootGuestBody{Res: new(types.RebootGuestResponse)}
}

// askGuest makes the guest do something after the latency, unless it hangs or was reset or powered off meanwhile. The caller holds the
// world lock.
func (vm *machine) askGuest(kind Kind, do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)) types.BaseMethodFault {
	if fault := mustBeOn(vm.VirtualMachine); fault != nil {
		return fault
	}
	if !toolsRun(vm.VirtualMachine) {
		return new(types.ToolsUnavailable)
	}
	before := vm.v.guestStates[vm.Self]
	vm.work(kind, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		if vm.v.guestStates[vm.Self] != before || vm.v.matches(ctx, vm.v.hanging, vm.VirtualMachine) {
			return nil, nil
		}
		return do(ctx)
	})
	return nil
}

func mustBeOn(vm *simulator.VirtualMachine) types.BaseMethodFault {
	if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
		return nil
	}
	return &types.InvalidPowerState{
		RequestedState: types.VirtualMachinePowerStatePoweredOn, ExistingState: vm.Runtime.PowerState,
	}
}

func mustBeOff(vm *simulator.VirtualMachine) types.BaseMethodFault {
	if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff {
		return nil
	}
	return &types.InvalidPowerState{
		RequestedState: types.VirtualMachinePowerStatePoweredOff, ExistingState: vm.Runtime.PowerState,
	}
}
