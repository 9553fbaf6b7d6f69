package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A VM with a pending question (vSphere's runtime.question) is blocked until the question is answered, and so is the task that powers it on,
// which doesn't fail either. A program must not choose the answer ("I moved it" and "I copied it" give the VM different identities), so the
// server reports the question, and doesn't change the VM until it is answered.

// asks reports whether the VM with that moRef has a pending question.
func (s *sets) asks(moRef string) bool {
	return moRef != "" && slices.ContainsFunc(s.asking, func(m *member) bool { return m.MoRef == moRef })
}

// sortAsking finds the VMs with a pending question.
func (s *sets) sortAsking() {
	for _, vms := range [][]member{s.members, s.standby, s.quarantined} {
		for i := range vms {
			if vms[i].Question != "" {
				s.asking = append(s.asking, &vms[i])
			}
		}
	}
}

// questions returns the pending questions as faults.
func (s *sets) questions() (all []named) {
	for _, m := range s.asking {
		all = append(all, named{Who: s.facts.stepKey(m), Fault: plan.Fault{Reason: plan.ReasonQuestionPending, NeedsOperator: true, Message: questionFault(m.Question)}})
	}
	return all
}

// collectStalled adds what is stalled: VMs with a pending question, and tasks without progress.
func (s *steps) collectStalled() {
	s.faults = append(s.faults, s.sets.questions()...)
	for name, f := range s.facts.State.Stalled {
		if p := s.facts.Pending[name]; p.State == plan.Running && f.Reason != plan.ReasonQuestionPending {
			s.faults = append(s.faults, named{Who: name, Fault: f})
		}
	}
}
