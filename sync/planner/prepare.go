package planner

import (
	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A member is prepared once, after its clone and before it first runs, so that software that selects VMs by tag knows it from
// the start, and its guest finds its network at the first boot. Later changes of tags and attributes are made while it
// runs.

// startable reports whether a member that is off can be powered on once it is prepared. Others are removed.
func (d *decision) startable(m *member) bool {
	return m.isOff() && !d.facts.neverRuns(m)
}

// prepareFirst prepares a member that is off, before it is powered on for the first time.
func (s *steps) prepareFirst(m *member, why string) {
	s.prepareMember(m, why)
	m.begins(starting, !m.blocked[preparing])
}

// prepareMember prepares a member, or brings its tags and attributes up to date. If it has another step already, that step comes first.
func (s *steps) prepareMember(m *member, why string) {
	if _, later := s.stepOf[m.name]; !later {
		m.begins(preparing, s.prepare(m, why))
	}
}

// prepare prepares a member, and reports whether nothing blocks it.
func (s *steps) prepare(m *member, reason string) bool {
	details, ok := s.facts.details(m.Ordinal)
	if !ok { // it is outdated then, or adopted
		details.Addresses = nil
	}
	return s.act(plan.Action{Op: plan.Prepare, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: details, Reason: reason,
		Generation: s.facts.Group.Generation})
}

// mayLackTags says why the tags and attributes of a prepared member are to be compared with the spec again; empty if they aren't. vCenter keeps tags by
// the moRef. If an operator asks, a replica compares them that was called since they were compared last: an older call has an older annotation.
func (f *facts) mayLackTags(m *member) string {
	asked := plan.TryAgainOf(f.Group)
	switch {
	case !plan.HasTags(&f.Group.Spec) || m.unprepared():
		return ""
	case m.Tagged.MoRef != "" && m.Tagged.MoRef != m.MoRef:
		return "it came back with another moRef, so vCenter may have dropped its tags and attributes"
	case asked != "" && m.Tagged.Asked != asked && f.Called.After(m.Tagged.At):
		return "an operator asks to look at its tags and attributes again (try-again)"
	}
	return ""
}

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
	s.act(plan.Action{Op: plan.SetRules, VM: plan.RulesKey, Reason: reason, Generation: s.facts.Group.Generation, Args: &plan.Details{Spec: spec}})
}

// awaitsRules reports whether members can only be powered on after the rules are set.
func (f *facts) awaitsRules() bool {
	return f.State.RulesOff && plan.RulesOf(&f.Group.Spec).Required()
}

// rulesGone reports whether a group in deletion has no DRS rule left, or none that can be removed.
func (f *facts) rulesGone() bool {
	p := f.Pending[plan.RulesKey]
	return !f.State.RulesOff || p.Op == plan.SetRules && p.State != plan.Running && p.Fault.Reason != "" && !p.Fault.Transient
}
