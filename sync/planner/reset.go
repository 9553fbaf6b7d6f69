package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// toReset restarts a member that healing restarts.
var toReset = &concern{why: (*decision).whyReset, next: (*steps).reset}

func (d *decision) whyReset(m *member) string {
	return textIf(!m.leaves(), m.restart)
}

func (s *steps) reset(m *member, why string) {
	s.act(plan.Action{Op: plan.Reset, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Reason: why})
}
