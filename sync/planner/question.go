package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A VM that asks stands still until somebody answers, and so does the task that powers it on: no fault ends it. What to answer is
// not for a program to decide ("I moved it" and "I copied it" give the VM another identity), so the question is told, and
// nothing is done to the VM meanwhile.

// asks reports whether the VM with that moRef waits for an answer.
func (v *view) asks(moRef string) bool {
	return moRef != "" && slices.ContainsFunc(v.asking, func(m *member) bool { return m.MoRef == moRef })
}

// sortAsking finds the VMs that wait for an answer.
func (v *view) sortAsking() {
	for _, vms := range [][]member{v.members, v.quarantined} {
		for i := range vms {
			if vms[i].Question != "" {
				v.asking = append(v.asking, &vms[i])
			}
		}
	}
}

// questions are what the VMs ask, as faults.
func (v *view) questions() (all []named) {
	for _, m := range v.asking {
		who := m.name
		if !m.Quarantined.IsZero() {
			who = v.key(m)
		}
		all = append(all, named{who: who, Fault: plan.Fault{Reason: plan.ReasonQuestionPending, Person: true, Message: askingText(m.Question)}})
	}
	return all
}

func askingText(question string) string {
	return "the VM waits for an answer in vCenter (Actions, Guest OS, Answer Question), and nothing is done to it until then: " + question
}

// collectStandstills adds what stands still: the VMs that ask, and the tasks that vCenter does not get on with.
func (v *view) collectStandstills() {
	v.faults = append(v.faults, v.questions()...)
	for name, f := range v.State.Stalled {
		if p := v.Pending[name]; p.State == plan.Running && f.Reason != plan.ReasonQuestionPending {
			v.faults = append(v.faults, named{who: name, Fault: f})
		}
	}
}
