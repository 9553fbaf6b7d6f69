// This file marks a member before the server takes it down, reads the group after the mark, and puts a removed member into quarantine.

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

// removal is a step of the removal of a member.
type removal struct{ *step }

// mark sets or withdraws the mark in a member's stamp. The write has the changeVersion that the plan saw, so vCenter refuses it if the VM has
// changed: of two replicas, one sees the other's change.
func (r removal) mark(ctx context.Context) error {
	m, err := r.own()
	if err != nil {
		return err
	}
	next := stampAfter(m, r.action)
	done := next == m.Stamp // an earlier try wrote it
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
	// Another replica may have marked another member at the same time, and the stream may not show that mark yet. Each replica reads all members
	// after it wrote its own mark, so at least one of the two sees both marks before it takes its member down; otherwise they could take down too
	// many. If the reply was lost, the mark may exist, so the members are read in that case, too.
	if err := cmp.Or(err, r.readMembers(ctx)); err != nil {
		return err
	}
	r.marks.Store(m.MoRef, next.MarkedAt)
	return nil
}

// readMembers reads all members of the group, and waits until they are published.
func (st *step) readMembers(ctx context.Context) error {
	st.reader.Enqueue(st.inventory.MemberRefs(st.ref.UID)...)
	return st.reader.Read(ctx, st.vm())
}

// readSinceMark makes sure that this process has read all members of the group after a member was marked, before it takes the member down. The
// process that wrote the mark has done so (mark). Another process may see this mark before the mark that a third replica wrote for another
// member; it would take down one member while the third replica takes down the other.
//
// A scale-in reads them in any case: since its plan, or since the mark, another replica may have begun to remove a member that the plan counts on.
func (st *step) readSinceMark(ctx context.Context, m *inventory.Member) error {
	at, known := st.marks.Load(m.MoRef)
	known = known && m.Stamp.MarkedAt.Equal(at.(time.Time))
	if known && st.action.Leaves == 0 {
		return nil
	}
	planned := st.memberStates()
	if err := st.readMembers(ctx); err != nil {
		return err
	}
	st.marks.Store(m.MoRef, m.Stamp.MarkedAt)
	if !known && !maps.Equal(planned, st.memberStates()) {
		return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "Members of %s have changed since the server planned to take %s down; the server plans the group again.", st.ref, st.action.Key)
	}
	return st.countOthers()
}

// leavesEnough checks that a scale-in leaves enough members, by a read of all of them.
func (st *step) leavesEnough(ctx context.Context) error {
	if st.action.Leaves == 0 {
		return nil
	}
	if err := st.readMembers(ctx); err != nil {
		return err
	}
	return st.countOthers()
}

// countOthers counts the members that a scale-in leaves, by what this process has just read.
func (st *step) countOthers() error {
	stay := map[int32]bool{}
	for _, ref := range st.inventory.MemberRefs(st.ref.UID) {
		if m := st.inventory.Member(ref.Value); m != nil && ref.Value != st.action.MoRef {
			if vm := m.Stamp.Onto(m.VM); vm.Stays() {
				stay[vm.Ordinal] = true
			}
		}
	}
	if len(stay) >= st.action.Leaves {
		return nil
	}
	return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "If %s were removed, %s would have %s left, and is to have %d; the server plans the group again.",
		st.action.Key, st.ref, plan.Count(len(stay), "member"), st.action.Leaves)
}

// memberState is the state of a member that a plan depends on, and that another replica can change.
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

// quarantine records in a marked member's stamp that the VM is no longer a member. The VM must be off. Another replica that does not know of the
// mark yet may be powering it on, so quarantine waits for such a task, and checks the power state again after the write.
func (r removal) quarantine(ctx context.Context) error {
	m, err := r.own()
	if err != nil {
		return err
	}
	if !m.Stamp.Quarantined.IsZero() {
		return nil // already in quarantine
	}
	if err := r.unchanged(m); err != nil {
		return err
	}
	if err := r.leavesEnough(ctx); err != nil {
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
