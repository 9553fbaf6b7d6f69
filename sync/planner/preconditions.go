package planner

import (
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A voluntary step takes down a member that could keep serving: to remove it, or to power it off for a while. It passes
// preconditions, in two places:
//
//	precondition     passed                        opens when                                                 is in
//	-------  ----------------------------  ---------------------------------------------------------  -----------------------------
//	window   before a member is marked     a window is open, for updates of any kind                  nominateOutdated
//	follows  before a member is marked     its successor exists, or can be made, if it is to be replaced (successor)  selectForRemoval, decideStandby
//	promise  before a member is marked     enough others serve, so that the group stays above         selectForRemoval,
//	                                       replicas less maxUnavailable                               chooseCycles
//	drain    by a marked member            its endpoints were terminating for drainSeconds            drained
//	hold     by a marked member            no annotation holds it any more, or its time is over       released
//	choice   by a marked member            no mark is being withdrawn; none written, if it is ready   choiceIsMade
//	relief   by a duplicate that serves    the member of its ordinal serves, or enough others do      isRelieved
//
// A precondition that is closed notes when to look again (wake), unless something that is observed opens it. Nothing that takes a marked
// member down can leave out passes.
type precondition struct {
	// opens reports whether the member can be taken down, as far as this precondition knows.
	opens func(*steps, *member) bool
	// says is the sentence about the members that wait at it, in the message; empty if other sentences say enough.
	says string
	// until is what each of them waits for.
	until string
}

// draining is the precondition of a member that is ready, and to which endpoints lead.
var draining = precondition{(*steps).isDrained, "draining %s before (spec.service.drainSeconds)", "its endpoints to be drained (spec.service.drainSeconds)"}

// choice is the precondition of a member beside which others have marks that are to be withdrawn.
var choice = precondition{(*steps).choiceIsMade, "", "the marks of others, which are being written or withdrawn"}

// preconditions are what a marked member passes before it is taken down.
var preconditions = []*precondition{
	&draining,
	{(*steps).isReleased, "waiting for %s that annotations hold (spec.deletion.holdTimeoutSeconds)", "the annotations that hold it (spec.deletion.holdTimeoutSeconds)"},
	&choice,
	{(*steps).isRelieved, "", otherMembers},
}

// passes reports whether a marked member passes all preconditions now. Each is asked, as each notes its time.
func (s *steps) passes(m *member) bool {
	m.waits = nil
	all := true
	for i := len(preconditions) - 1; i >= 0; i-- {
		if !preconditions[i].opens(s, m) {
			all, m.waits = false, preconditions[i]
		}
	}
	return all
}

func (s *steps) isDrained(m *member) bool {
	over, again := s.facts.drained(m)
	s.wake.note(again)
	return over
}

// choiceIsMade reports whether the choice of who is taken down is made: see withdrawing and announcing. A duplicate is no choice.
func (s *steps) choiceIsMade(m *member) bool {
	return s.facts.Finalizing || m.duplicate || !s.decision.withdrawing && !(m.ready && s.facts.announcing())
}

// isRelieved reports whether a duplicate can be taken down. No endpoint leads to it, and people may use it all the same: while fewer members
// serve than are promised, it stays until the member of its ordinal, which runs, serves too. A member that is off waits for it in turn.
// (test/world, seed 1200000280: an operator renamed the only member that served while another replica cloned its ordinal again, and it was
// shut down before the other guest had booted.)
func (s *steps) isRelieved(m *member) bool {
	serves := m.Power == plan.PoweredOn && (m.HasReported() || s.facts.policy.Check == v1alpha1.ReadyPoweredOn) && !m.halting()
	return s.facts.Finalizing || !m.duplicate || !serves || s.decision.slack >= 0 || !slices.ContainsFunc(s.sets.members, func(x member) bool {
		return x.Ordinal == m.Ordinal && !x.duplicate && x.Power == plan.PoweredOn && !x.serving
	})
}

// waiting counts the members that wait at preconditions, and waitingText says at which, a sentence for each precondition.
func (r *report) waiting() (n int) {
	for i := range r.sets.members {
		n += int(oneIf(r.sets.members[i].waits != nil && r.sets.members[i].waits.says != ""))
	}
	return n
}

func (r *report) waitingText(int) string {
	var texts []string
	for _, g := range preconditions {
		n := 0
		for i := range r.sets.members {
			n += int(oneIf(r.sets.members[i].waits == g))
		}
		if g.says != "" && n > 0 {
			texts = append(texts, fmt.Sprintf(g.says, count(n, "member")))
		}
	}
	return strings.Join(texts, "; ")
}
