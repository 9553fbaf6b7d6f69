// This file has what members are cloned from, and what keeps them from being cloned.

package planner

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// sourceFault says why nothing can be cloned at all; nil if something can. No member is made without its user data: it
// would find none at its first boot.
func (f *facts) sourceFault() *plan.Fault {
	if f.Related.Fault != nil {
		return f.Related.Fault
	}
	return f.templateFault()
}

// templateFault says why the template cannot be cloned from; nil if it can.
func (f *facts) templateFault() *plan.Fault {
	t, name := &f.State.Template, f.Group.Spec.Template
	switch {
	case len(t.Paths) == 1:
		return nil
	case len(t.Paths) > 1:
		return &plan.Fault{Reason: plan.ReasonTemplateAmbiguous, NeedsOperator: true, Message: fmt.Sprintf(
			"template %q is ambiguous: give the inventory path of one of %s", name, plan.AtMost(t.Paths, 5))}
	case t.Fault != nil:
		return t.Fault
	}
	there := "no templates there"
	if len(t.Others) > 0 {
		there = "templates there: " + plan.AtMost(t.Others, 10)
	}
	return &plan.Fault{Reason: plan.ReasonTemplateNotFound, NeedsOperator: true, Message: fmt.Sprintf(
		"template %q not found in datacenter %s; %s", name, t.Datacenter, there)}
}

func (f *facts) addressesFault() plan.Fault {
	return plan.Fault{Reason: plan.ReasonAddressesExhausted, NeedsOperator: true, Message: fmt.Sprintf(
		"spec.networks has static addresses for %s, and none is free for this one: add addresses to the ranges (replicas, standby and update.maxSurge each need theirs); if only an update needs more, update.maxSurge 0 does, too",
		plan.Count(plan.AddressCount(&f.Group.Spec), "member"))}
}

// cloneOf is the clone of a member.
func (f *facts) cloneOf(name string, ordinal int32, details *plan.Details, standby bool) plan.Action {
	return plan.Action{Op: plan.Clone, Key: name, Ordinal: ordinal, Generation: f.Group.Generation, Args: plan.CloneArgs{
		Folder: f.State.Folder, Template: f.State.Template.MoRef, Fingerprint: f.State.Template.Fingerprint,
		CPU: f.Group.Spec.CPU, MemoryMB: f.Group.MemoryMB(), Revision: f.revision, Standby: standby, Details: details}}
}
