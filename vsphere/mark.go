package vsphere

import (
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// mark writes into a member's stamp that it is chosen to go, or that it is not.
// changeVersion makes vCenter refuse it if anybody changed the VM since it was read: of two replicas, one
// sees the other.
func (v *VCenter) mark(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	next := stampAfter(m, a)
	done := next == m.Stamp // as wanted, and published
	if done && a.Op == plan.Unmark {
		return v.awaitPower(ctx, inventory.VMRef(m.MoRef), tasks.PoweringOff...)
	}
	if done {
		return nil
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	if a.Op == plan.Unmark {
		if err := v.writeStamp(ctx, m.MoRef, m.ChangeVersion, next.Encode()); err != nil {
			return err
		}
		return v.awaitPower(ctx, inventory.VMRef(m.MoRef), tasks.PoweringOff...)
	}
	err = v.reconfigure(ctx, inventory.VMRef(m.MoRef), types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion,
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: next.Encode()}}})
	// Another replica may have marked another member meanwhile, and the stream may not have told yet. Both look
	// at all members after their own mark is written, so one of them at least sees both marks before it takes its member
	// down: else the two together would take down more than may be. A mark whose answer was lost may be there as well.
	v.reader.Touch(v.inventory.MemberRefs(ref.UID)...)
	if err != nil {
		return err
	}
	return v.reader.Read(ctx, inventory.VMRef(m.MoRef))
}

// stampAfter returns the member's stamp as a step leaves it that marks it, or takes its mark off.
func stampAfter(m *inventory.Member, a plan.Action) stamp.Stamp {
	vm, next := m.Stamp.Onto(m.VM), m.Stamp
	vm.Restamp(&a, stamp.Time(time.Now()))
	next.Marked, next.Why, next.MarkedAt, next.Generation = vm.Marked, vm.Why, vm.MarkedAt, vm.Generation
	next.Quarantined, next.Shutdown = vm.Quarantined, vm.Shutdown
	return next
}

// quarantine writes into a marked member's stamp that it is no member any more. It must be off, and another replica of the
// server, which has not heard of the mark, may be powering it on at this moment.
func (v *VCenter) quarantine(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if !m.Stamp.Quarantined.IsZero() {
		return nil // as wanted, and published
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	vm := inventory.VMRef(a.MoRef)
	if err := v.awaitPower(ctx, vm, tasks.PoweringOn...); err != nil {
		return err
	}
	now, err := v.lookUnchanged(ctx, ref, a, m)
	switch {
	case err != nil:
		return err
	case now.power != types.VirtualMachinePowerStatePoweredOff:
		return notOff(now.power)
	}
	next := m.Stamp
	next.Quarantined = stamp.Time(time.Now())
	if err := v.writeStamp(ctx, a.MoRef, m.ChangeVersion, next.Encode()); err != nil {
		return err
	}
	if late := v.inventory.Member(a.MoRef); late != nil && late.Power == plan.PoweredOn {
		if err := v.restamp(ctx, late, func(s *stamp.Stamp) { s.Quarantined = time.Time{} }); err != nil {
			return err
		}
		return notOff(types.VirtualMachinePowerStatePoweredOn)
	}
	return nil
}

func notOff(power types.VirtualMachinePowerState) *vcfault.Error {
	return vcfault.New(vcfault.ReasonInvalidPowerState, false, "The VM is %s, so it was not put into quarantine; its state is read again.", power)
}
