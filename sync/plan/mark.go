package plan

import (
	"time"
)

// Restamp changes the mark in the VM's stamp as Mark, Unmark, or a Reconfigure of a member that was marked for a power cycle does. Other
// steps don't change the mark. now must be in whole seconds, as times in stamps are.
//
//	step         before                          after
//	-----------  ------------------------------  ---------------------------------------------------------------
//	Mark         not marked, or PowerCycle only  marked now, for the reason of the step
//	Mark         marked to go                    marked since then; a deletion, which has no reason, leaves the former one
//	Unmark       marked, or in quarantine        a member like any other; its guest may still halt if it was asked to
//	Reconfigure  PowerCycle, and powered off     a member like any other
//
// A Mark, an Unmark and the ShutdownGuest of a deletion leave the newest generation, so that a replica that knows only an older one leaves the group alone.
func (vm *VM) Restamp(a *Action, now time.Time) {
	switch a.Op {
	case Mark:
		why := ArgsOf[MarkArgs](a.Args).Reason
		chosen := vm.Marked && (vm.MarkReason != MarkReasonPowerCycle || why == MarkReasonPowerCycle)
		if !chosen {
			vm.MarkedAt = now
		}
		if !chosen || why != "" {
			vm.MarkReason = why
		}
		vm.Marked, vm.Generation = true, max(vm.Generation, a.Generation)
	case Unmark:
		vm.unmark()
		vm.Generation = max(vm.Generation, a.Generation)
		if !SameBoot(vm.Shutdown.Boot, vm.BootTime) { // the VM was powered off or on since its guest was asked
			vm.Shutdown = Moment{}
		}
	case ShutdownGuest:
		vm.Generation = max(vm.Generation, a.Generation)
	case Reconfigure:
		if vm.MarkReason == MarkReasonPowerCycle && !ArgsOf[ResizeArgs](a.Args).Hot {
			vm.unmark()
		}
	}
}

// Stays reports whether a VM of a group is a member that no server is about to remove, whether or not the VM runs. The server removes no VM that vCenter
// can't reach, so such a member stays.
func (vm *VM) Stays() bool {
	return vm.Quarantined.IsZero() && !vm.Standby && !vm.IsTemplate && (!vm.Marked || vm.MarkReason == MarkReasonPowerCycle || !vm.Reachable)
}

func (vm *VM) unmark() {
	vm.Marked, vm.MarkedAt, vm.MarkReason, vm.Quarantined = false, time.Time{}, "", time.Time{}
}
