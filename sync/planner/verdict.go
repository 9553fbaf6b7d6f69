package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// concern is one thing that the planner may do to a VM, or for an ordinal that no VM has: why, and which step is next. Each is in a file of its own.
type concern struct {
	// why says why a member has the concern; empty if it doesn't. It is nil if a decision alone gives the concern to a VM or an ordinal (wants).
	why func(*decision, *member) string
	// awaits says what a member waits for before its next step; empty if nothing. It can be nil.
	awaits func(*decision, *member) string
	// next plans the next step, from the VM's present state.
	next func(s *steps, m *member, why string)
}

// verdict is what becomes of a VM, or of an ordinal that no VM has yet. The status message counts the activities of all verdicts.
type verdict struct {
	becomes plan.Decision
	why     string
	// needs are its concerns. kept: it differs from the spec, and the update keeps it as it is. keptBy says what else keeps it as it is.
	needs  []need
	kept   bool
	keptBy string
	// awaits is what it waits for before its next step; waits is the precondition for which it waits with its mark. awaitsSource: it waits for
	// something to clone.
	awaits       string
	waits        *precondition
	awaitsSource bool
	// does are the activities that concern it.
	does []does
}

// need is a concern of a VM or an ordinal, and why it has it.
type need struct {
	*concern
	because string
}

// does is an activity that concerns a VM or an ordinal. A blocked one isn't counted: a fault says why it is blocked.
type does struct {
	*plan.Activity
	blocked bool
}

// decide records the verdict about a VM that is no member, or about an ordinal.
func (m *member) decide(becomes plan.Decision, why string) { m.becomes, m.why = becomes, why }

// wants notes a concern of a VM or an ordinal.
func (m *member) wants(c *concern, why string) { m.needs = append(m.needs, need{c, why}) }

// begins notes an activity, and whether something blocks it.
func (m *member) begins(a *plan.Activity, unblocked bool) {
	for i := range m.does {
		if m.does[i].Activity == a {
			m.does[i].blocked = !unblocked
			return
		}
	}
	m.does = append(m.does, does{a, !unblocked})
}

// block notes that something blocks an activity, if it goes on.
func (m *member) block(a *plan.Activity) {
	for i := range m.does {
		m.does[i].blocked = m.does[i].blocked || m.does[i].Activity == a
	}
}

// isBlocked reports whether something blocks an activity.
func (m *member) isBlocked(a *plan.Activity) bool { return slices.Contains(m.does, does{a, true}) }

// removal is what allows the removal of a VM, and how the VM is removed.
type removal int

// The kinds of removals: see remove.
const (
	chosen removal = iota
	expired
	duplicate
	deleted
	retained
	idle
)

// vacancy is a member that has no VM yet. Its ordinal may not be known either.
func vacancy(why string) *member {
	m := &member{}
	m.decide(plan.Create, why)
	return m
}

// assign gives a vacancy its ordinal.
func (m *member) assign(group string, ordinal int32) {
	m.Ordinal, m.name = ordinal, plan.MemberName(group, ordinal)
}

// What a member can wait for.
const (
	otherMembers = "other members to be available"
	aSuccessor   = "its successor"
	anOperator   = "an operator: no successor can be created"
)
