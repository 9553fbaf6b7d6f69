package planner

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// heldUntil returns until when a member is held that is to be taken down; zero if it is not.
func (f *facts) heldUntil(m *member) time.Time {
	if !f.holds.Any() || m.Power != plan.PoweredOn || m.halting() || f.Finalizing && (f.policy.Retain || f.paused()) {
		return time.Time{}
	}
	since := f.chosenSince(m)
	if m.Marked && since.IsZero() { // marked by an older server, without a time; or by a clock that is ahead, which makes the hold longer
		since = m.MarkedAt
	}
	return f.holds.Until(m.name, m.MoRef, since, f.Now)
}

// holdsAny reports whether a member of a deleted group is held: the children that still exist are kept until that is over.
func (s *sets) holdsAny() bool {
	for i := range s.members {
		if len(s.facts.Children) > 0 && !s.members[i].heldUntil.IsZero() {
			return true
		}
	}
	return !s.facts.vCenterKnown && len(s.facts.Children) > 0 && s.facts.holds.Any() && !s.facts.policy.Retain
}
