package planner

import (
	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// setRules keeps the group's DRS rules in step with its members; a group in deletion has none.
func (s *steps) setRules() {
	if !s.facts.State.RulesOff {
		return
	}
	spec, reason := &s.facts.Group.Spec, "the DRS rules differ from spec.placement, or from the members that exist"
	if s.facts.Finalizing {
		spec, reason = spec.DeepCopy(), "the group is deleted"
		spec.Placement.AntiAffinity, spec.Placement.HostGroup = v1alpha1.AntiAffinityNone, nil
	}
	s.act(plan.Action{Op: plan.SetRules, Key: plan.RulesKey, Reason: reason, Generation: s.facts.Group.Generation, Args: &plan.Details{Spec: spec}})
}

// awaitsRules reports whether members are powered on only after the rules are set: DRS chooses hosts by the rules, and may move no VM later (if it is
// partially automated, or manual). Rules that are not required are not waited for if they can't be set.
func (f *facts) awaitsRules() bool {
	return f.State.RulesOff && (plan.RulesOf(&f.Group.Spec).Required() || f.Pending[plan.RulesKey].Fault.Reason == "")
}

// rulesGone reports whether a group in deletion has no DRS rule left, or none that can be removed.
func (f *facts) rulesGone() bool {
	p := f.Pending[plan.RulesKey]
	return !f.State.RulesOff || p.Op == plan.SetRules && p.State != plan.Running && p.Fault.Reason != "" && !p.Fault.Transient
}
