package planner

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A voluntary step takes down a member that could keep serving: to remove it, or to power it off for a while. It has preconditions, some
// before the member is marked, and some before a marked member is taken down:
//
//	name     checked                       is met when                                                is in
//	-------  ----------------------------  ---------------------------------------------------------  -----------------------------
//	window   before a member is marked     a window is open, for updates of any kind                  update.nominate
//	follows  before a member is marked     it isn't replaced, or its successor exists or can be       selectForRemoval,
//	                                       created (successor.go)                                     decideStandby
//	promise  before a member is marked     enough others serve, so that at most maxUnavailable of     selectForRemoval,
//	                                       replicas don't                                             chooseCycles
//	drain    with its mark                 its endpoints were terminating for drainSeconds            isDrained
//	hold     with its mark                 no annotation holds it, or its time is over                isReleased
//	choice   with its mark                 no mark is being withdrawn; none written, if it is ready   choiceIsMade
//	relief   a duplicate that serves       the member of its ordinal serves, or enough others do      isRelieved
//
// Every step that takes a marked member down asks passes.
type precondition struct {
	// opens reports whether the precondition is met. again is when to look again if it isn't; zero if only a change of the observation meets
	// it.
	opens func(*steps, *member) (met bool, again time.Time)
	// says is the sentence in the status message about the members that wait for it; empty if other sentences say enough.
	says string
	// until is what such a member waits for.
	until string
}

// draining is the precondition of a member that is ready, and to which endpoints lead.
var draining = precondition{(*steps).isDrained, "draining the endpoints of %s first (spec.service.drainSeconds)", "its endpoints to be drained (spec.service.drainSeconds)"}

// choice is the precondition of a member beside which others have marks that are to be withdrawn.
var choice = precondition{(*steps).choiceIsMade, "", "the removal marks of other members to be written or withdrawn"}

// preconditions are what a marked member passes before it is taken down.
var preconditions = []*precondition{
	&draining,
	{(*steps).isReleased, "waiting for the annotations that hold %s (at most spec.deletion.holdTimeoutSeconds)", "the annotations that hold it (at most spec.deletion.holdTimeoutSeconds)"},
	&choice,
	{(*steps).isRelieved, "", otherMembers},
}

// passes reports whether a marked member meets all preconditions now. It asks each of them, since each can say when to look again.
func (s *steps) passes(m *member) bool {
	m.waits = nil
	all := true
	for i := len(preconditions) - 1; i >= 0; i-- {
		met, again := preconditions[i].opens(s, m)
		if s.wake.note(again); !met {
			all, m.waits = false, preconditions[i]
		}
	}
	return all
}

func (s *steps) isDrained(m *member) (is bool, again time.Time) { return s.facts.drained(m) }

// isReleased reports whether no annotation holds a marked member (plan.Holds). If members can be held, a replica of the server takes
// none down before a hook call that is later than the mark: until then it may not know of an annotation.
func (s *steps) isReleased(m *member) (is bool, again time.Time) {
	f := s.facts
	if f.holds.Timeout > 0 && m.Marked && m.Power == plan.PoweredOn && !m.halting() && f.Called.Before(m.MarkedAt) && !m.MarkedAt.After(f.Now.Add(plan.ClockSkew)) {
		return false, f.Now.Add(time.Second)
	}
	return m.heldUntil.IsZero(), time.Time{}
}

// choiceIsMade reports whether it is settled which members are taken down: see withdrawing and announcing. A duplicate is taken down in any
// case.
func (s *steps) choiceIsMade(m *member) (is bool, again time.Time) {
	return s.facts.Finalizing || m.duplicate || !s.decision.withdrawing && !(m.ready && s.facts.announcing()), time.Time{}
}

// announcing reports whether this replica is writing a mark. Another replica can act on the mark before the write returns, so until the write
// ends, this replica takes down no ready member.
func (f *facts) announcing() bool {
	for _, p := range f.Pending {
		if p.Op == plan.Mark && p.State == plan.Running {
			return true
		}
	}
	return false
}

// canMark reports whether a member that may serve can be marked. A mark makes a member's endpoints terminating. While another member still has
// a mark that is to be withdrawn, both members' endpoints would be terminating, which can be more than maxUnavailable allows.
func (s *steps) canMark(m *member) bool {
	if !m.mayServe() || s.facts.isMarking(m) || !s.decision.withdrawing && !s.decision.remarking {
		return true
	}
	m.waits = &choice
	return false
}

// isRelieved reports whether a duplicate can be taken down. The Service doesn't lead to it, but its clients may use its address. So while more
// than maxUnavailable members don't serve, it runs until the member of its ordinal serves. If that member is off, the duplicate is taken down,
// since the member is powered on only afterwards. (test/world, seed 1200000280: an operator renamed the only member that served while another
// replica cloned its ordinal again, and it was shut down before the other guest had booted.)
func (s *steps) isRelieved(m *member) (is bool, again time.Time) {
	serves := m.Power == plan.PoweredOn && (m.HasReported() || s.facts.policy.Check == v1alpha1.ReadyPoweredOn) && !m.halting()
	return s.facts.Finalizing || !m.duplicate || !serves || s.decision.slack >= 0 || !slices.ContainsFunc(s.sets.members, func(x member) bool {
		return x.Ordinal == m.Ordinal && !x.duplicate && x.Power == plan.PoweredOn && !x.serving
	}), time.Time{}
}
