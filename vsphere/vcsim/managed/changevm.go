package managed

import (
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/backing"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// changeVM changes the VM or template with a path or name, under the world lock. It makes changes for which vCenter has no call, or only a
// roundabout one.
func (v *Objects) changeVM(what, where string, do func(*simulator.Context, *simulator.VirtualMachine) types.BaseMethodFault) error {
	ref, err := v.Find(where)
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, where, err)
	}
	v.world.Lock()
	defer v.world.Unlock()
	vm, ok := v.objects.Get(ref).(*simulator.VirtualMachine)
	if !ok {
		return fmt.Errorf("%s %s: not a VM", what, where)
	}
	if fault := do(v.world.Context(), vm); fault != nil {
		return fmt.Errorf("%s %s: %w", what, where, soap.WrapVimFault(fault))
	}
	return nil
}

// BeginTask begins a task on the root folder. It ends when end is called, with a fault if that is not nil, otherwise with a result.
func (v *Objects) BeginTask(kind Kind) (ref types.ManagedObjectReference, end func(types.AnyType, types.BaseMethodFault)) {
	v.world.Lock()
	defer v.world.Unlock()
	root := v.objects.Get(v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.RootFolder)
	j := v.newJob("", kind, root.(mo.Entity), world.AdminUser)
	return j.Self, func(result types.AnyType, fault types.BaseMethodFault) { v.finish(v.world.Context(), j, result, fault) }
}

// SetIP makes the guest report an address, until it halts or its Tools stop; "" removes it.
func (v *Objects) SetIP(where, ip string) error {
	return v.changeVM("set the address of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.report(ctx, vm, func(g *types.GuestInfo) { setAddress(g, ip) })
		return nil
	})
}

// SetTools starts or stops VMware Tools in a powered-on VM, whatever Config.Guest says, until the next power change or reset. The guest runs
// on and keeps its addresses; after a start, Tools report one after Guest.IP.
func (v *Objects) SetTools(where string, running bool) error {
	return v.changeVM("set the tools of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOn(vm); fault != nil {
			return fault
		}
		v.setTools(ctx, vm, running)
		return nil
	})
}

func (v *Objects) setTools(ctx *simulator.Context, vm *simulator.VirtualMachine, running bool) {
	s := v.guestStateOf(vm.Self)
	if running {
		s.silent = nil
		v.report(ctx, vm, toolsStart)
		v.scheduleAddress(ctx, vm, s)
		return
	}
	s.end()
	v.report(ctx, vm, func(g *types.GuestInfo) {
		for _, nic := range g.Net {
			if ofAdapter(nic) {
				s.silent = append(s.silent, nic.IpAddress...)
			}
		}
		toolsStop(g)
	})
}

// SetHealth sets the health of a guest. A healthy one starts as after a reset, if its VM is on. In a powered-off VM, HungUntilReset is not
// possible.
func (v *Objects) SetHealth(where string, health Health) error {
	return v.changeVM("change the health of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		fault := mustBeOn(vm)
		if fault != nil && health == HungUntilReset {
			return fault
		}
		s := v.guestStateOf(vm.Self)
		s.health = health
		switch {
		case health != Healthy:
			s.end()
			v.report(ctx, vm, toolsStop)
		case fault == nil:
			v.startTools(ctx, vm, s)
		}
		return nil
	})
}

// BreakGuests makes matching guests start without VMware Tools and address, from now on. After BreakGuests(nil), broken guests stay so
// until a reset. match is called with locks held and must not call this vCenter.
func (v *Objects) BreakGuests(match func(VM) bool) {
	v.world.Lock()
	defer v.world.Unlock()
	v.broken = match
}

// IgnoreGuestinfo makes matching guests that boot from now on ignore cloud-init's metadata and their customization, as a template without
// cloud-init does: they use DHCP, and keep the template's host name. match is called with locks held and must not call this vCenter.
func (v *Objects) IgnoreGuestinfo(match func(VM) bool) {
	v.world.Lock()
	defer v.world.Unlock()
	v.ignoring = match
}

// Report makes the first adapter of a guest with running Tools report these addresses, in this order, with what the guest knows of each,
// and one as the guest's primary address.
func (v *Objects) Report(where, primary string, addresses ...types.NetIpConfigInfoIpAddress) error {
	return v.changeVM("change the addresses of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustHaveTools(vm); fault != nil {
			return fault
		}
		v.report(ctx, vm, func(g *types.GuestInfo) {
			setAddress(g, primary)
			for i := range g.Net {
				if !ofAdapter(g.Net[i]) {
					continue
				}
				g.Net[i].IpAddress, g.Net[i].IpConfig = nil, &types.NetIpConfigInfo{IpAddress: addresses}
				for _, a := range addresses {
					g.Net[i].IpAddress = append(g.Net[i].IpAddress, a.IpAddress)
				}
				break
			}
		})
		return nil
	})
}

// HangShutdown makes matching guests ignore requests to shut down or reboot; nil: none. match is called with locks held, at the time of the
// halt, and must not call this vCenter.
func (v *Objects) HangShutdown(match func(VM) bool) {
	v.world.Lock()
	defer v.world.Unlock()
	v.hanging = match
}

// SetHotAdd sets whether CPUs and memory of a VM, or of a template's clones, can be hot-added. The VM must be off. (In a real vCenter, a
// template must become a VM for this.)
func (v *Objects) SetHotAdd(where string, cpu, memory bool) error {
	return v.changeVM("set the hot-add of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOff(vm); fault != nil {
			return fault
		}
		v.Amend(ctx, vm,
			types.PropertyChange{Name: "config.cpuHotAddEnabled", Val: cpu},
			types.PropertyChange{Name: "config.memoryHotAddEnabled", Val: memory})
		return nil
	})
}

// Republish changes the contents of a template's disks, as an operator does who patches it in place.
func (v *Objects) Republish(where string) error {
	return v.changeVM("republish", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOff(vm); fault != nil {
			return fault
		}
		v.Amend(ctx, vm, types.PropertyChange{Name: "config.hardware.device", Val: backing.Rewritten(vm.Config.Hardware.Device)})
		return nil
	})
}
