package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// toRemove removes a member that leaves the group: it is marked, and once its preconditions are met, taken down.
var toRemove = &concern{why: (*decision).whyRemove, next: (*steps).removeChosen}

func (d *decision) whyRemove(m *member) string {
	return textIf(m.leaves(), m.why)
}

// removeChosen marks a member that is to be removed, and removes a member with a mark.
func (s *steps) removeChosen(m *member, why string) {
	unblocked := true
	switch {
	case !m.Reachable, !m.MarkedForRemoval() && !s.canMark(m):
	case !m.MarkedForRemoval() && m.fate == replacedNow:
		unblocked = s.act(s.facts.replacing(m, m.nominated, why))
		s.reportFailedRehearsal(m)
	case !m.MarkedForRemoval():
		to := plan.MarkReasonScaleIn
		if m.givenUp { // its VM is kept in quarantine (duplicates.go)
			to = plan.MarkReasonDuplicate
		}
		unblocked = s.act(s.facts.marking(m, to, why))
	default:
		unblocked = s.remove(m, chosen, why)
	}
	m.begins(leaving, unblocked)
}
