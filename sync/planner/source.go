// This file has what members are cloned from, and what keeps them from being cloned.

package planner

import (
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
	t, fault := &f.State.Template, needsOperator(plan.ReasonTemplateNotFound)
	switch {
	case len(t.Paths) == 1:
		return nil
	case len(t.Paths) > 1:
		fault.Reason = plan.ReasonTemplateAmbiguous
	case t.Fault != nil:
		return t.Fault
	}
	return &fault
}

// cloneOf is the clone of a member.
func (f *facts) cloneOf(name string, ordinal int32, details *plan.Details, standby bool) plan.Action {
	return plan.Action{Op: plan.Clone, Key: name, Ordinal: ordinal, Generation: f.Group.Generation, Args: plan.CloneArgs{
		Folder: f.State.Folder, Template: f.State.Template.MoRef, Fingerprint: f.State.Template.Fingerprint,
		CPU: f.Group.Spec.CPU, MemoryMB: f.Group.MemoryMB(), Revision: f.revision, Standby: standby, Details: details}}
}
