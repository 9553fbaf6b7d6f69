// This file has the last stage of a plan.

package planner

// report is what a plan reports: status, message, verdicts, Events. It decides nothing.
type report struct {
	facts    *facts
	sets     *sets
	decision *decision
	steps    *steps
}

func reportOf(s *steps) *report {
	return &report{facts: s.facts, sets: s.sets, decision: s.decision, steps: s}
}
