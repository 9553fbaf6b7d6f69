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

// lookUnchanged reads a member, whose configuration must not have changed since the plan.
func (st *step) lookUnchanged(ctx context.Context, m *inventory.Member) (*FreshVM, error) {
	now, err := st.ReadFresh(ctx, st.vm())
	if err == nil {
		err = check(now, st.ref, st.action)
	}
	if err == nil && now.ChangeVersion != m.ChangeVersion {
		err = changedMeanwhile()
	}
	return now, err
}

// lookAgain reads a member again that goes because it is marked, or is powered on because it is not: another replica may
// have just withdrawn or set the mark.
func (st *step) lookAgain(ctx context.Context) (*FreshVM, error) {
	now, err := st.ReadFresh(ctx, st.vm())
	if err == nil {
		err = check(now, st.ref, st.action)
	}
	return now, err
}

// check checks that the VM can be destroyed: it is the group's, has that ordinal, is no copy, and, unless the whole group
// goes, is still marked for it: another replica may have withdrawn the mark.
func check(x *FreshVM, ref plan.Ref, a plan.Action) error {
	has, owner := stamp.Read(x.Stamp, x.InstanceUUID, x.InstanceUUID != "" && x.File != "")
	switch {
	case owner == stamp.Unreadable:
		return vcfault.ForRetry(plan.ReasonUnreachable, "The configuration of %s cannot be read, so nothing was done to it.", a.VM)
	case owner != stamp.Ours || has.UID != ref.UID || has.Ordinal != a.Ordinal:
		return notOurs(a)
	case a.Marked && !(has.Marked && (fits(has.Why, a.Op) || !has.Quarantined.IsZero())):
		return wantedAfterAll(a)
	case a.Op == plan.Destroy && a.Marked && slices.ContainsFunc(plan.ArgsOf[plan.DestroyArgs](a.Args).Keeps, func(id string) bool { return !slices.Contains(plan.KeptDisks(has.Given), id) }):
		return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "Disks of %s have been deleted; the VM is kept until the status lists the deletion.", a.VM)
	case a.Op == plan.PowerOn && has.Marked:
		return chosenMeanwhile(a)
	}
	return nil
}

// fits reports whether a mark of that kind permits a step: a member that is only power-cycled must not be removed.
func fits(why plan.Why, op plan.Op) bool {
	return why != plan.WhyPowerCycle || op == plan.PowerOff || op == plan.ShutdownGuest
}

func wantedAfterAll(a plan.Action) *vcfault.Error {
	return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "The mark of %s was withdrawn, so the VM is kept.", a.VM)
}

func chosenMeanwhile(a plan.Action) *vcfault.Error {
	return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "%s has been marked to be taken down, so it was not powered on.", a.VM)
}
