// This file chooses a member for removal: its mark, the read of the group after it, and its quarantine.

package vsphere

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// removal is a step on the way of a member out of its group.
type removal struct{ *step }

// mark records in a member's stamp that it is chosen to go, or that it stays.
// Because of changeVersion vCenter refuses it if anybody changed the VM since it was read: of two replicas, one
// sees the other's change.
func (r removal) mark(ctx context.Context) error {
	m, err := r.own()
	if err != nil {
		return err
	}
	next := stampAfter(m, r.action)
	done := next == m.Stamp // nothing to do, and published
	if done && r.action.Op == plan.Unmark {
		return r.awaitPower(ctx, inventory.VMRef(m.MoRef), tasks.TakingDown...)
	}
	if done {
		return nil
	}
	if err := r.unchanged(m); err != nil {
		return err
	}
	if r.action.Op == plan.Unmark {
		if err := r.writeStamp(ctx, m.MoRef, m.ChangeVersion, next.Encode()); err != nil {
			return err
		}
		return r.awaitPower(ctx, inventory.VMRef(m.MoRef), tasks.TakingDown...)
	}
	if successor := plan.ArgsOf[plan.MarkArgs](r.action.Args).Successor; successor != nil {
		if err := r.checkClone(ctx, *successor); err != nil {
			return vcfault.Untried(err)
		}
	}
	err = r.reconfigure(ctx, inventory.VMRef(m.MoRef), types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion,
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: next.Encode()}}})
	// Another replica may have marked another member meanwhile, and the stream may not have shown it yet. Both read
	// all members after they wrote their own mark, so at least one of them sees both marks before it takes its member
	// down: otherwise the two together could take down too many. A mark whose answer was lost may exist as well, so that is waited for, too.
	if err := cmp.Or(err, r.readMembers(ctx)); err != nil {
		return err
	}
	r.marks.Store(m.MoRef, next.MarkedAt)
	return nil
}

// readMembers reads all members of the group.
func (st *step) readMembers(ctx context.Context) error {
	st.reader.Touch(st.inventory.MemberRefs(st.ref.UID)...)
	return st.reader.Read(ctx, st.vm())
}

// readSinceMark makes sure that this process has read all members of the group since a member was marked, before it takes that member
// down. The process that writes a mark has (mark). Any other process may see this mark, and not yet the one that a third replica has
// written for another member: it would take down one member, and the third replica another one.
func (st *step) readSinceMark(ctx context.Context, m *inventory.Member) error {
	if at, known := st.marks.Load(m.MoRef); known && m.Stamp.MarkedAt.Equal(at.(time.Time)) {
		return nil
	}
	planned := st.memberStates()
	if err := st.readMembers(ctx); err != nil {
		return err
	}
	st.marks.Store(m.MoRef, m.Stamp.MarkedAt)
	if !maps.Equal(planned, st.memberStates()) {
		return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "Members of %s have changed since the server planned to take %s down; the server plans the group again.", st.ref, st.action.VM)
	}
	return nil
}

// memberState is what a plan depends on that another replica changes.
type memberState struct {
	changeVersion string
	power         plan.PowerState
}

// memberStates returns the states of the group's members, by moRef.
func (st *step) memberStates() map[string]memberState {
	states := map[string]memberState{}
	for _, ref := range st.inventory.MemberRefs(st.ref.UID) {
		if m := st.inventory.Member(ref.Value); m != nil {
			states[ref.Value] = memberState{m.ChangeVersion, m.Power}
		}
	}
	return states
}

// quarantine records in a marked member's stamp that it is no longer a member. The VM must be off, but another replica of the
// server, which does not know of the mark yet, may be powering it on now.
func (r removal) quarantine(ctx context.Context) error {
	m, err := r.own()
	if err != nil {
		return err
	}
	if !m.Stamp.Quarantined.IsZero() {
		return nil // nothing to do, and published
	}
	if err := r.unchanged(m); err != nil {
		return err
	}
	vm := r.vm()
	if err := r.awaitPower(ctx, vm, tasks.PoweringOn...); err != nil {
		return err
	}
	now, err := r.readUnchanged(ctx, m)
	switch {
	case err != nil:
		return err
	case now.Power != types.VirtualMachinePowerStatePoweredOff:
		return errNotOff(now.Power)
	}
	next := m.Stamp
	next.Quarantined = stamp.Time(time.Now())
	if err := r.writeStamp(ctx, r.action.MoRef, m.ChangeVersion, next.Encode()); err != nil {
		return err
	}
	if late := r.inventory.Member(r.action.MoRef); late != nil && late.Power == plan.PoweredOn {
		if err := r.restamp(ctx, late, func(s *stamp.Stamp) { s.Quarantined = time.Time{} }); err != nil {
			return err
		}
		return errNotOff(types.VirtualMachinePowerStatePoweredOn)
	}
	return nil
}

func errNotOff(power types.VirtualMachinePowerState) *vcfault.Error {
	return vcfault.ForRetry(vcfault.ReasonInvalidPowerState, "The VM is %s, so it was not put into quarantine; its state is read again.", power)
}
