package planner

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/answers"
)

// isAnswering reports whether a member whose readiness.check is satisfied counts as one that answers.
func (v *view) isAnswering(m *member, i int) bool {
	r := &v.Group.Spec.Readiness
	if !r.Probes() {
		return true
	}
	address := plan.AskedAddress(m.IPs)
	if !address.IsValid() {
		return false
	}
	m.answer = answers.Of(r, &v.Answers, m.MoRef, address, v.record(m.MoRef, i), v.Now)
	v.wakeAt(m.answer.Wake)
	return m.answer.Ready
}

// findMistrust finds why the answers of the members are not believed.
func (v *view) findMistrust() {
	if !v.Group.Spec.Readiness.Probes() || v.Finalizing {
		return
	}
	var refused []string
	open := false
	for i := range v.members {
		m := &v.members[i]
		if m.answer.Refused {
			refused = append(refused, m.display())
		}
		open = open || m.answer.Open && m.ready
	}
	mistrust, wake := answers.Mistrust(v.Group, &v.Answers, refused, open, v.Now)
	v.mistrust = mistrust
	v.wakeAt(wake)
}

// heldBy says what keeps members that differ from the spec as they are; empty if nothing does.
func (v *view) heldBy() string {
	if held := v.policy.Held(); held != "" || v.mistrust == nil {
		return held
	}
	return "the members' readiness is doubted"
}

// askedAgain reports whether a marked member that counts as silent was asked since it was marked. Another replica may have heard it
// before, and have begun to take another member down on its strength; that one sees the mark, and counts on it no more.
func (v *view) askedAgain(m *member) bool {
	silent := !m.ready && !m.answer.Open && m.answer.Silence != ""
	if !silent || v.Finalizing || m.Why == plan.WhyHealing || v.halting(m) || m.answer.Asked.After(v.chosenSince(m)) {
		return true
	}
	v.wakeAt(v.Now.Add(time.Second))
	return false
}
