// This file answers for groups that are not being deleted, and that their CompositeController no longer selects.
//
// Metacontroller calls /finalize for two reasons. Either the group is being deleted: then it has a deletionTimestamp. Or the
// CompositeController no longer selects it, because its labels or the controller's labelSelector changed. Then the group continues to exist,
// so nothing is removed, whichever vCenter has its VMs.

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// unselectedRetry is when Metacontroller should call again for a group whose finalizer can probably be removed soon.
const unselectedRetry = 5 * time.Second

// answerUnselected answers for a group that is not being deleted but that its CompositeController no longer selects. The answer
// leaves everything as received. Metacontroller removes its finalizer (Finalized) only if this vCenter has no VM of the group and none can
// appear: every lease is over, and a fresh read has shown neither a VM nor a running clone. Until then the call is refused, so that a later
// deletion of the group removes its VMs.
func answerUnselected(o *plan.Observed) plan.Result {
	r := plan.Result{Status: o.Group.Status, Children: children.AsReceived(o.Children)}
	confirm := o.Pending[plan.ConfirmKey]
	over := o.FinalizingSince.Add(o.Lease)
	switch s := &o.State; {
	case !s.Known && s.Fault != nil:
		r.Refusal = unselectedRefusal(o, "whether vCenter has VMs of it is not known ("+strings.TrimSuffix(s.Fault.Message, ".")+")")
	case !s.Known:
		r.Refusal = &plan.Refusal{Message: "vCenter's inventory is being read", Retry: unselectedRetry}
	case len(s.VMs) > 0:
		r.Refusal = unselectedRefusal(o, fmt.Sprintf("vCenter has %s of it (%s)", plan.Count(len(s.VMs), "VM"), vmNames(s.VMs)))
	case len(recordedHere(o)) > 0:
		r.Refusal = unselectedRefusal(o, fmt.Sprintf("its status records %s that vCenter does not show and has not confirmed to be gone (%s)",
			plan.Count(len(recordedHere(o)), "VM"), plan.AtMost(recordedHere(o), 5)))
	case len(disksHere(o)) > 0:
		r.Refusal = unselectedRefusal(o, fmt.Sprintf("its status records %s in this vCenter (%s)", plan.Count(len(disksHere(o)), "persistent disk"), plan.AtMost(disksHere(o), 5)))
	case o.AnyRunning():
		r.Refusal = &plan.Refusal{Message: "a step that this server began for the group is still running", Retry: unselectedRetry}
	case o.Now.Before(over):
		r.Refusal = &plan.Refusal{Message: "a replica of this server may still act for the group, until the lease of its last sync ends", Retry: unselectedRetry}
	case !o.Emptied && confirm.Fault.NeedsOperator:
		r.Refusal = unselectedRefusal(o, "whether vCenter has VMs of it cannot be confirmed ("+strings.TrimSuffix(confirm.Fault.Message, ".")+")")
	case !o.Emptied:
		r.Refusal = &plan.Refusal{Message: cmp.Or(confirm.Fault.Message, "a fresh read of vCenter has to show that it has nothing of the group"), Retry: unselectedRetry}
	default:
		r.Finalized = true
	}
	if o.State.Known && len(o.State.VMs) == 0 && !o.Emptied && !o.AnyRunning() && !o.Now.Before(over) && confirm.State != plan.BackingOff {
		r.Actions = []plan.Action{{Op: plan.ConfirmGone, Key: plan.ConfirmKey, Args: plan.ConfirmArgs{Since: o.FinalizingSince}, Reason: "the group is no longer selected: a fresh read must show that nothing of it is here"}}
	}
	return r
}

// unselectedRefusal says what happened, why the finalizer is not removed, and what to do.
func unselectedRefusal(o *plan.Observed, why string) *plan.Refusal {
	return &plan.Refusal{Message: fmt.Sprintf("VmGroup %s/%s is not being deleted, but its CompositeController no longer selects it, and %s. "+
		"Nothing is removed: VMs, status and children stay. Without sync calls this server soon stops acting for the group: it does not scale, update or heal. "+
		"To continue, restore the group's labels or the CompositeController's spec.parentResource.labelSelector. "+
		"To remove the VMs, or to create the group elsewhere, delete the VmGroup: its VMs are removed from this vCenter then, as spec.deletion says.",
		o.Group.Namespace, o.Group.Name, why)}
}

// recordedHere names the VMs that the status records in this vCenter, or in one that it does not name, and that are not
// confirmed to be gone.
func recordedHere(o *plan.Observed) []string {
	if isElsewhere(o) {
		return nil
	}
	s := &o.Group.Status
	var names []string
	departed := o.State.Departed()
	note := func(name string, id plan.VMID) {
		if !departed.Has(id) {
			names = append(names, name)
		}
	}
	for i := range s.Members {
		note(s.Members[i].NameInVCenter(), plan.IDOf(&s.Members[i]))
	}
	for i := range s.Quarantined {
		note(s.Quarantined[i].Name, plan.VMID{MoRef: s.Quarantined[i].MoRef})
	}
	for i := range s.Standby {
		note(cmp.Or(s.Standby[i].VMName, s.Standby[i].Name), plan.VMID{MoRef: s.Standby[i].MoRef})
	}
	return names
}

// disksHere are the persistent disks that the status records in this vCenter. They outlive VMs, and only this install finds them.
func disksHere(o *plan.Observed) []string {
	if isElsewhere(o) {
		return nil
	}
	return o.Group.DisksLeft()
}

// isElsewhere reports whether the status is about another vCenter.
func isElsewhere(o *plan.Observed) bool {
	was := o.Group.Status.VCenterUUID
	return was != "" && was != o.State.VCenter
}

func vmNames(vms []plan.VM) string {
	names := make([]string, len(vms))
	for i := range vms {
		names[i] = vms[i].Name
	}
	slices.Sort(names)
	return plan.AtMost(names, 5)
}
