package planner

import (
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A member is prepared once, after its clone and before it first runs, so that software that selects VMs by tag knows it from
// the start, and its guest finds its network at the first boot. Later changes of tags and attributes are made while it
// runs.

// unprepared reports whether a member must not be powered on yet.
func (m *member) unprepared() bool { return strings.HasPrefix(m.Prepared, plan.Unprepared) }

// preparable reports whether a member can be prepared with the present spec, because it was made from it. (Other user data
// raises no generation, and does not concern Prepare.) One that cannot be prepared, and never ran, is to go.
func (v *facts) preparable(m *member) bool {
	return m.outdated == "" && v.revision != "" || m.Generation == v.Group.Generation
}

// prepareFirst prepares a member that is off, before it is powered on for the first time.
func (v *steps) prepareFirst(m *member, why string) {
	v.prepareMember(m, why)
	m.begins(starting, !m.blocked[preparing])
}

// prepareMember prepares a member, or brings its tags and attributes up to date. If it has another step already, that one is what is
// going on.
func (v *steps) prepareMember(m *member, why string) {
	if _, later := v.stepOf[m.name]; !later {
		m.begins(preparing, v.prepare(m, why))
	}
}

// prepare prepares a member, and reports whether nothing blocks it.
func (v *steps) prepare(m *member, reason string) bool {
	details, ok := v.details(m.Ordinal)
	if !ok { // it is outdated then, or adopted
		details.Addresses = nil
	}
	return v.act(plan.Action{Op: plan.Prepare, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: details, Reason: reason,
		Generation: v.Group.Generation})
}

// setRules keeps the group's DRS rules in step with its members; a group in deletion has none.
func (v *steps) setRules() {
	if !v.State.RulesOff {
		return
	}
	spec, reason := &v.Group.Spec, "the DRS rules differ from spec.placement, or from the members that exist"
	if v.Finalizing {
		spec, reason = spec.DeepCopy(), "the group is deleted"
		spec.Placement.AntiAffinity, spec.Placement.HostGroup = v1alpha1.AntiAffinityNone, nil
	}
	v.act(plan.Action{Op: plan.SetRules, VM: plan.RulesKey, Reason: reason, Generation: v.Group.Generation, Args: &plan.Details{Spec: spec}})
}

// awaitsRules reports whether members can only be powered on after the rules are set.
func (v *facts) awaitsRules() bool {
	return v.State.RulesOff && plan.RulesOf(&v.Group.Spec).Required()
}

// rulesGone reports whether a group in deletion has no DRS rule left, or none that can be removed.
func (v *facts) rulesGone() bool {
	p := v.Pending[plan.RulesKey]
	return !v.State.RulesOff || p.Op == plan.SetRules && p.State != plan.Running && p.Fault.Reason != "" && !p.Fault.Transient
}
