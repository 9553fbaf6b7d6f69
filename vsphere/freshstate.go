package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/fresh"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// ReadFresh reads a VM now.
func (v *VCenter) ReadFresh(ctx context.Context, vm types.ManagedObjectReference) (*fresh.VM, error) {
	return v.fresh.VM(ctx, vm)
}

// lookUnchanged reads a member, whose configuration must not have changed since the plan.
func (v *VCenter) lookUnchanged(ctx context.Context, ref plan.Ref, a plan.Action, m *inventory.Member) (*fresh.VM, error) {
	now, err := v.ReadFresh(ctx, inventory.VMRef(a.MoRef))
	if err == nil {
		err = check(now, ref, a)
	}
	if err == nil && now.ChangeVersion != m.ChangeVersion {
		err = changedMeanwhile()
	}
	return now, err
}

// check checks that the VM may be destroyed: it is the group's, has that ordinal, is no copy, and, unless the whole group
// goes, is still marked for it: another replica may have withdrawn the mark.
func check(x *fresh.VM, ref plan.Ref, a plan.Action) error {
	has, owner := stamp.Read(x.Stamp, x.InstanceUUID, x.InstanceUUID != "" && x.File != "")
	switch {
	case owner == stamp.Unreadable:
		return vcfault.New(plan.ReasonUnreachable, false, "The configuration of %s cannot be read, so nothing was done to it.", a.VM)
	case owner != stamp.Ours || has.UID != ref.UID || has.Ordinal != a.Ordinal:
		return notOurs(a)
	case a.Marked && !(has.Marked && (fits(has.Why, a.Op) || !has.Quarantined.IsZero())):
		return wantedAfterAll(a)
	case a.Op == plan.Destroy && a.Marked && slices.ContainsFunc(a.Keeps, func(id string) bool { return !slices.Contains(plan.KeptDisks(has.Given), id) }):
		return vcfault.New(vcfault.ReasonConcurrentAccess, false, "Disks of %s have been deleted meanwhile; it stays until the status tells.", a.VM)
	case a.Op == plan.PowerOn && has.Marked:
		return chosenMeanwhile(a)
	}
	return nil
}

func chosenMeanwhile(a plan.Action) *vcfault.Error {
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "%s has been chosen to go meanwhile, so it was not powered on.", a.VM)
}

// fits reports whether a mark of that kind permits a step: a member that is only power-cycled must not be removed.
func fits(why plan.Why, op plan.Op) bool {
	return why != plan.WhyPowerCycle || op == plan.PowerOff || op == plan.ShutdownGuest
}

func wantedAfterAll(a plan.Action) *vcfault.Error {
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The mark of %s was withdrawn, so it stays.", a.VM)
}

// lookAgain reads a member again that goes because it is marked, or is powered on because it is not: another replica may
// have just withdrawn or set the mark. In the same call it reads the members that must keep serving while this one is
// down: the stream may not have shown yet that they are marked, or down.
func (v *VCenter) lookAgain(ctx context.Context, ref plan.Ref, a plan.Action) (*fresh.VM, error) {
	now, err := v.fresh.VM(ctx, inventory.VMRef(a.MoRef), a.Others...)
	if err == nil {
		err = check(now, ref, a)
	}
	if gone := vcfault.MissingObject(err); err == nil && now.Others < a.Least || gone.Value != "" && gone.Value != a.MoRef {
		return nil, v.tooFew(a)
	}
	return now, err
}

// lookAtOthers reads those alone, where there were other calls between lookAgain and the one that takes the member down.
func (v *VCenter) lookAtOthers(ctx context.Context, a plan.Action) error {
	if len(a.Others) == 0 {
		return nil
	}
	others, err := v.fresh.Others(ctx, a.Others)
	if err == nil && others < a.Least || vcfault.MissingObject(err).Value != "" {
		return v.tooFew(a)
	}
	return err
}

// tooFew refuses to take a member down because too few of the members that must keep serving are unchanged.
func (v *VCenter) tooFew(a plan.Action) *vcfault.Error {
	for _, o := range a.Others {
		v.reader.Touch(inventory.VMRef(o.MoRef))
	}
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "Fewer of the other members serve than the plan assumed, so %s was not taken down; they are read again.", a.VM)
}
