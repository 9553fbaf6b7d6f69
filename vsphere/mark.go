package vsphere

import (
	"cmp"
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// mark records in a member's stamp that it is chosen to go, or that it stays.
// Because of changeVersion vCenter refuses it if anybody changed the VM since it was read: of two replicas, one
// sees the other's change.
func (v *VCenter) mark(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	next := stampAfter(m, a)
	done := next == m.Stamp // nothing to do, and published
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
	if a.Successor != nil {
		if err := v.rehearse(ctx, ref, *a.Successor); err != nil {
			return vcfault.Untried(err)
		}
	}
	err = v.reconfigure(ctx, inventory.VMRef(m.MoRef), types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion,
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: next.Encode()}}})
	// Another replica may have marked another member meanwhile, and the stream may not have shown it yet. Both read
	// all members after they wrote their own mark, so at least one of them sees both marks before it takes its member
	// down: otherwise the two together could take down too many. A mark whose answer was lost may exist as well, so that is waited for, too.
	v.reader.Touch(v.inventory.MemberRefs(ref.UID)...)
	return cmp.Or(err, v.reader.Read(ctx, inventory.VMRef(m.MoRef)))
}

// stampAfter returns the member's stamp as a step leaves it that marks it, or takes its mark off.
func stampAfter(m *inventory.Member, a plan.Action) stamp.Stamp {
	vm, next := m.Stamp.Onto(m.VM), m.Stamp
	vm.Restamp(&a, stamp.Time(time.Now()))
	next.Marked, next.Why, next.MarkedAt, next.Generation = vm.Marked, vm.Why, vm.MarkedAt, vm.Generation
	next.Quarantined, next.Shutdown = vm.Quarantined, vm.Shutdown
	return next
}

// quarantine records in a marked member's stamp that it is no longer a member. The VM must be off, but another replica of the
// server, which does not know of the mark yet, may be powering it on now.
func (v *VCenter) quarantine(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if !m.Stamp.Quarantined.IsZero() {
		return nil // nothing to do, and published
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
	case now.Power != types.VirtualMachinePowerStatePoweredOff:
		return notOff(now.Power)
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
