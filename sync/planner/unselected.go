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

// Metacontroller calls /finalize for two reasons. Either the group is being deleted: then it has a deletionTimestamp. Or the
// CompositeController no longer selects it, because its labels or the controller's labelSelector changed. Then
// nothing is removed, whichever vCenter has the VMs: the group continues to exist, and so do they.

// retryUnselected is when Metacontroller should call again for a group that may be let go soon.
const retryUnselected = 5 * time.Second

// unselected answers for a group that is not being deleted but that its CompositeController no longer selects. The answer
// leaves everything as received. The group is let go (Finalized, so that Metacontroller removes its finalizer) only
// if this vCenter holds no VM of it and none can appear: every lease is over, and a fresh read has shown neither a VM
// nor a clone under way. Until then the call is refused, so that this server stays responsible for the VMs in a later deletion.
func unselected(o *plan.Observed) plan.Result {
	r := plan.Result{Status: o.Group.Status, Children: asReceived(o.Children)}
	confirm := o.Pending[plan.ConfirmKey]
	over := o.FinalizingSince.Add(o.Lease)
	switch s := &o.State; {
	case !s.Known && s.Trouble != nil:
		r.Refusal = unselectedRefusal(o, "whether vCenter holds VMs of it is not known ("+strings.TrimSuffix(s.Trouble.Message, ".")+")")
	case !s.Known:
		r.Refusal = &plan.Refusal{Message: "vCenter's inventory is being read", Retry: retryUnselected}
	case len(s.VMs) > 0:
		r.Refusal = unselectedRefusal(o, fmt.Sprintf("vCenter holds %s of it (%s)", count(len(s.VMs), "VM"), vmNames(s.VMs)))
	case len(recordedHere(o)) > 0:
		r.Refusal = unselectedRefusal(o, fmt.Sprintf("its status records %s that vCenter does not show and has not confirmed to be gone (%s)",
			count(len(recordedHere(o)), "VM"), plan.AtMost(recordedHere(o), 5)))
	case anyRunning(o):
		r.Refusal = &plan.Refusal{Message: "a step that this server began for the group is still under way", Retry: retryUnselected}
	case o.Now.Before(over):
		r.Refusal = &plan.Refusal{Message: "a replica of this server may still act for the group, until the lease of its last sync ends", Retry: retryUnselected}
	case !o.Emptied && confirm.Fault.Person:
		r.Refusal = unselectedRefusal(o, "whether vCenter holds VMs of it cannot be confirmed ("+strings.TrimSuffix(confirm.Fault.Message, ".")+")")
	case !o.Emptied:
		r.Refusal = &plan.Refusal{Message: cmp.Or(confirm.Fault.Message, "a fresh read of vCenter has to show that it holds nothing of the group"), Retry: retryUnselected}
	default:
		r.Finalized = true
	}
	if o.State.Known && len(o.State.VMs) == 0 && !o.Emptied && !anyRunning(o) && !o.Now.Before(over) && confirm.State != plan.BackingOff {
		r.Actions = []plan.Action{{Op: plan.ConfirmGone, VM: plan.ConfirmKey, Since: o.FinalizingSince, Reason: "the group is no longer selected: a fresh read must show that nothing of it is here"}}
	}
	return r
}

// unselectedRefusal says what happened, why the group is not let go, and what to do.
func unselectedRefusal(o *plan.Observed, why string) *plan.Refusal {
	return &plan.Refusal{Message: fmt.Sprintf("VmGroup %s/%s is not being deleted, but its CompositeController no longer selects it, and %s. "+
		"Nothing is removed: VMs, status and children stay. Without sync calls this server soon stops acting for the group: it does not scale, update or heal. "+
		"To go on, put back the group's labels or the CompositeController's spec.parentResource.labelSelector. "+
		"To remove the VMs, or to make the group elsewhere, delete the VmGroup: its VMs are removed from this vCenter then, as spec.deletion says.",
		o.Group.Namespace, o.Group.Name, why)}
}

// asReceived returns the observed children unchanged.
func asReceived(observed map[plan.ChildKey]plan.ObservedChild) []plan.Child {
	all := make([]plan.Child, 0, len(observed))
	for key, child := range observed {
		all = append(all, plan.Child{Key: key, LastApplied: child.LastApplied})
	}
	children.Sort(all)
	return all
}

// recordedHere names the VMs that the status records in this vCenter, or in one that it does not name, and that are not
// confirmed to be gone.
func recordedHere(o *plan.Observed) []string {
	s := &o.Group.Status
	if s.VCenterUUID != "" && s.VCenterUUID != o.State.VCenter {
		return nil
	}
	var names []string
	note := func(name, moRef, instanceUUID string) {
		if !o.State.IsGone(moRef, instanceUUID) {
			names = append(names, name)
		}
	}
	for i := range s.Members {
		note(s.Members[i].Name, s.Members[i].MoRef, s.Members[i].InstanceUUID)
	}
	for i := range s.Quarantined {
		note(s.Quarantined[i].Name, s.Quarantined[i].MoRef, "")
	}
	return names
}

func anyRunning(o *plan.Observed) bool {
	for _, p := range o.Pending {
		if p.State == plan.Running {
			return true
		}
	}
	return false
}

func vmNames(vms []plan.VM) string {
	names := make([]string, len(vms))
	for i := range vms {
		names[i] = vms[i].Name
	}
	slices.Sort(names)
	return plan.AtMost(names, 5)
}
