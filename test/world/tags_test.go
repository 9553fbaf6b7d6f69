package world

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// In lives with tags, the spec has a tag, and members lose it: vCenter keeps tags by the moRef, so a VM that comes back with another one has none, and people
// detach tags. The server sees the former. Of the latter it learns only from an operator, who asks for another try.

// tagging is what happens in lives with tags only.
var tagging = []kind{
	{"a VM loses its tags", 3, false, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.tagged }), a); m != nil {
			m.tagged, w.untagged = false, true
		}
	}},
	{"an operator asks for another try", 2, false, func(w *world, _, _ int) { w.tryAgain() }},
}

// tryAgain sets the annotation try-again to another value.
func (w *world) tryAgain() {
	k := &w.kube
	if k.group == nil || k.deleting() {
		return
	}
	w.asks++
	k.asked = fmt.Sprint(w.asks)
	g := *k.group
	g.Annotations = w.annotations(&g)
	k.store(&g)
}

// noteTags notes what a Prepare does beside its write of the stamp.
func (m *machine) noteTags(a *plan.Action) {
	if a.Op == plan.Prepare {
		m.tagged = plan.HasTags(a.Details().Spec)
	}
}
