package managed

import (
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// These are an operator's deeds for which vCenter has no call, or only a long way round.

// byHand changes the VM or template at a path, or of a name, with the world held.
func (v *Objects) byHand(what, where string, do func(*simulator.Context, *simulator.VirtualMachine) types.BaseMethodFault) error {
	ref, err := v.Find(where)
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, where, err)
	}
	v.world.Lock()
	defer v.world.Unlock()
	vm, ok := v.objects.Get(ref).(*simulator.VirtualMachine)
	if !ok {
		return fmt.Errorf("%s %s: it is no VM", what, where)
	}
	if fault := do(v.world.Context(), vm); fault != nil {
		return fmt.Errorf("%s %s: %w", what, where, soap.WrapVimFault(fault))
	}
	return nil
}

// BeginTask begins a task on the root folder that does nothing until end is called, and then ends with a result or, if that
// is not nil, with a fault: for tests of whoever awaits tasks.
func (v *Objects) BeginTask(kind Kind) (ref types.ManagedObjectReference, end func(types.AnyType, types.BaseMethodFault)) {
	v.world.Lock()
	defer v.world.Unlock()
	root := v.objects.Get(v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.RootFolder)
	j := v.newJob("", kind, root.(mo.Entity), world.AdminUser)
	return j.Self, func(result types.AnyType, fault types.BaseMethodFault) { v.finish(v.world.Context(), j, result, fault) }
}

// SetIP has the guest report an address, until it halts or its tools stop; an empty one takes it away.
func (v *Objects) SetIP(where, ip string) error {
	return v.byHand("set the address of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.report(ctx, vm, func(g *types.GuestInfo) { setAddress(g, ip) })
		return nil
	})
}

// SetTools starts or stops VMware Tools in a VM that is on. So it stays until the next change of power
// or reset, whatever Config.Guest says, but for the address, which comes in its time.
func (v *Objects) SetTools(where string, running bool) error {
	return v.byHand("set the tools of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOn(vm); fault != nil {
			return fault
		}
		v.setTools(ctx, vm, running)
		return nil
	})
}

func (v *Objects) setTools(ctx *simulator.Context, vm *simulator.VirtualMachine, running bool) {
	l := v.lifeOf(vm.Self)
	if running {
		v.report(ctx, vm, toolsStart)
		v.awaitAddress(ctx, vm, l)
		return
	}
	l.end()
	v.report(ctx, vm, toolsStop)
}

// Sick makes a guest sick, or well again; then it comes up as after a reset, if its VM is on. A VM that
// is off can only be SickForGood, or Well.
func (v *Objects) Sick(where string, health Health) error {
	return v.byHand("change the health of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		fault := mustBeOn(vm)
		if fault != nil && health == SickUntilReset {
			return fault
		}
		l := v.lifeOf(vm.Self)
		l.health = health
		switch {
		case health != Well:
			l.end()
			v.report(ctx, vm, toolsStop)
		case fault == nil:
			v.comeUp(ctx, vm, l)
		}
		return nil
	})
}

// BreakGuests makes guests that come up from now on bring up neither VMware Tools nor an address, where
// match says so. With nil, those that come up from now on are whole again; the others stay broken until they
// are reset. match is called with locks held: it must not call this vCenter.
func (v *Objects) BreakGuests(match func(VM) bool) {
	v.world.Lock()
	defer v.world.Unlock()
	v.broken = match
}

// HangShutdown makes guests ignore that they are asked to shut down or to reboot, where match says so;
// nil: none does. match is called with locks held, when the guest would halt: it must not call this vCenter.
func (v *Objects) HangShutdown(match func(VM) bool) {
	v.world.Lock()
	defer v.world.Unlock()
	v.hanging = match
}

// SetHotAdd says whether a VM, or what is cloned from a template, can get CPUs and memory while it runs.
// The VM must be off. (For a template, real life would make it a VM and then a template again.)
func (v *Objects) SetHotAdd(where string, cpu, memory bool) error {
	return v.byHand("set the hot-add of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOff(vm); fault != nil {
			return fault
		}
		v.amend(ctx, vm,
			types.PropertyChange{Name: "config.cpuHotAddEnabled", Val: cpu},
			types.PropertyChange{Name: "config.memoryHotAddEnabled", Val: memory})
		return nil
	})
}

// Republish gives the disks of a template other contents, as somebody does who patches it in place.
func (v *Objects) Republish(where string) error {
	return v.byHand("republish", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOff(vm); fault != nil {
			return fault
		}
		v.amend(ctx, vm, types.PropertyChange{Name: "config.hardware.device", Val: rewritten(vm.Config.Hardware.Device)})
		return nil
	})
}
