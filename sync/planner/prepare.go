package planner

import (
	"cmp"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A member is prepared once, after its clone and before it first runs, so that software that selects VMs by tag knows it from
// the start, and its guest finds its network at the first boot. Later changes of tags and attributes are made while it
// runs.

// toPrepare prepares a member that is off, before it is powered on for the first time. toSetTags brings tags and attributes up to date.
var (
	toPrepare = &concern{why: (*decision).whyPrepare, next: (*steps).prepareFirst}
	toSetTags = &concern{why: (*decision).whyTags, next: (*steps).prepareMember}
)

// preparing: a member gets tags, attributes and its network configuration.
var preparing = &plan.Activity{Says: "preparing %s (tags, attributes, network)", Noun: "member", Background: true, Busy: true, Updates: true}

func (d *decision) whyPrepare(m *member) string {
	return textIf(d.startable(m) && !d.facts.lacksData(m) && m.unprepared(), "it must be prepared before its "+nextPowerOn(m))
}

// whyTags: after its first power-on, its tags and attributes change while it runs.
func (d *decision) whyTags(m *member) string {
	if !d.facts.preparable(m) || !m.isToMatchSpec() {
		return ""
	}
	return cmp.Or(textIf(m.Prepared != d.facts.prepared, "its tags or attributes differ from the spec"), d.facts.mayLackTags(m))
}

// prepareFirst prepares a member that is off, before it is powered on for the first time.
func (s *steps) prepareFirst(m *member, why string) {
	s.prepareMember(m, why)
	m.begins(starting, !m.isBlocked(preparing))
}

// prepareMember prepares a member, or brings its tags and attributes up to date. If it has another step already, that step comes first.
func (s *steps) prepareMember(m *member, why string) {
	if _, later := s.stepOf[m.name]; !later {
		m.begins(preparing, s.prepare(m, why))
	}
}
