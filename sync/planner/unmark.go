package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// toUnmark withdraws the mark of a member that is not to be taken down: two replicas of the server marked members at once, or the spec has changed.
// While such a mark exists, no serving member is taken down: another replica may be acting on the mark.
var toUnmark = &concern{why: (*decision).whyUnmark, next: (*steps).unmark}

// whyUnmark: a mark that another replica set after this replica's newest hook call is kept until the next call. The other replica may have a
// newer spec, and otherwise the two would set and withdraw the mark in turns.
func (d *decision) whyUnmark(m *member) string {
	later := m.MarkedAt.After(d.facts.Called) && !m.MarkedAt.After(d.facts.Now.Add(plan.ClockSkew))
	return textIf(m.isKept() && !later, "it is no longer to be taken down, so its mark is withdrawn")
}

func (s *steps) unmark(m *member, why string) {
	s.act(plan.Action{Op: plan.Unmark, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Generation: s.facts.Group.Generation, Reason: why})
}
