// This file reads a member right before a step changes it, and checks that the step is still right.

package vsphere

import (
	"context"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// readUnchanged reads a member again, and fails if its configuration has changed since the action was planned.
func (st *step) readUnchanged(ctx context.Context, m *inventory.Member) (*FreshVM, error) {
	now, err := st.ReadFresh(ctx, st.vm())
	if err == nil {
		err = checkFresh(now, st.ref, st.action)
	}
	if err == nil && now.ChangeVersion != m.ChangeVersion {
		err = errChanged()
	}
	return now, err
}

// readAgain reads a member again before the step removes it because of its mark, or powers it on because it has none: another replica may just
// have withdrawn or set the mark.
func (st *step) readAgain(ctx context.Context) (*FreshVM, error) {
	now, err := st.ReadFresh(ctx, st.vm())
	if err == nil {
		err = checkFresh(now, st.ref, st.action)
	}
	return now, err
}

// checkFresh checks that the step can act on the VM: it belongs to the group, has the action's ordinal, is no copy, and, if the action needs a
// mark, is still marked. Another replica may have withdrawn or set the mark, or deleted disks that the VM must keep.
func checkFresh(x *FreshVM, ref plan.Ref, a plan.Action) error {
	has, owner := stamp.Read(x.Stamp, x.InstanceUUID, x.InstanceUUID != "" && x.File != "" && len(x.Devices) > 0) // each VM has controllers
	switch {
	case owner == stamp.Unreadable:
		return vcfault.ForRetry(plan.ReasonUnreachable, "The configuration of %s cannot be read, so nothing was done to it.", a.Key)
	case owner != stamp.Ours || has.UID != ref.UID || has.Ordinal != a.Ordinal:
		return errNotOurs(a)
	case a.Marked && !(has.Marked && (permits(has.Why, a.Op) || !has.Quarantined.IsZero())):
		return errUnmarked(a)
	case a.Op == plan.Destroy && a.Marked && slices.ContainsFunc(plan.ArgsOf[plan.DestroyArgs](a.Args).Keeps, func(id string) bool { return !slices.Contains(plan.KeptDisks(has.Given), id) }):
		return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "Disks of %s have been deleted; the VM is kept until the status lists the deletion.", a.Key)
	case a.Op == plan.PowerOn && has.Marked:
		return errMarked(a)
	}
	return nil
}

// permits reports whether a mark for that purpose permits a step: a member that is marked for a power cycle must not be removed.
func permits(why plan.MarkReason, op plan.Op) bool {
	return why != plan.MarkReasonPowerCycle || op == plan.PowerOff || op == plan.ShutdownGuest
}

func errUnmarked(a plan.Action) *vcfault.Error {
	return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "The mark of %s was withdrawn, so the VM is kept.", a.Key)
}

func errMarked(a plan.Action) *vcfault.Error {
	return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "%s has been marked to be taken down, so it was not powered on.", a.Key)
}
