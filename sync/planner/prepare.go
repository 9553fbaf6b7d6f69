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
func (v *view) preparable(m *member) bool {
	return m.outdated == "" && v.revision != "" || m.Generation == v.Group.Generation
}

// prepareLater brings the tags and attributes of a member that has run before up to date.
func (v *view) prepareLater(m *member) {
	if m.Prepared == v.prepared || !v.preparable(m) || m.leaves || m.Marked || m.duplicate || !m.Reachable {
		return
	}
	v.prepareMember(m, "its tags or attributes differ from the spec")
}

// prepareMember prepares a member. If it has another step already, that one is what is going on.
func (v *view) prepareMember(m *member, reason string) bool {
	_, later := v.stepOf[m.name]
	goesOn := v.prepare(m, reason)
	if !later {
		m.begins(preparing, goesOn)
	}
	return goesOn
}

// prepare prepares a member, and reports whether nothing blocks it.
func (v *view) prepare(m *member, reason string) bool {
	details, ok := v.details(m.Ordinal)
	if !ok { // it is outdated then, or adopted
		details.Addresses = nil
	}
	return v.act(plan.Action{Op: plan.Prepare, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: details, Reason: reason,
		Generation: v.Group.Generation})
}

// setRules keeps the group's DRS rules in step with its members; a group in deletion has none.
func (v *view) setRules() {
	if !v.State.RulesOff {
		return
	}
	spec, reason := &v.Group.Spec, "the DRS rules differ from spec.placement.antiAffinity, or from the members that exist"
	if v.Finalizing {
		spec, reason = spec.DeepCopy(), "the group is deleted"
		spec.Placement.AntiAffinity = v1alpha1.AntiAffinityNone
	}
	v.act(plan.Action{Op: plan.SetRules, VM: plan.RulesKey, Reason: reason, Generation: v.Group.Generation, Args: &plan.Details{Spec: spec}})
}

// awaitsRules reports whether members can only be powered on after the rules are set.
func (v *view) awaitsRules() bool {
	return v.State.RulesOff && v.Group.Spec.Placement.AntiAffinity == v1alpha1.AntiAffinityRequired
}

// rulesGone reports whether a group in deletion has no DRS rule left, or none that can be removed.
func (v *view) rulesGone() bool {
	p := v.Pending[plan.RulesKey]
	return !v.State.RulesOff || p.Op == plan.SetRules && p.State != plan.Running && p.Fault.Reason != "" && !p.Fault.Transient
}
