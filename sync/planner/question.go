package planner

import (
	"slices"
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
	for m := range s.vms() {
		if m.Question != "" {
			s.asking = append(s.asking, m)
		}
	}
}
