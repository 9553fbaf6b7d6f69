package world

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A CompositeController stops selecting a group when the group's labels, or the controller's labelSelector, are edited. Metacontroller then
// calls the finalize hook for the group, although the group is not being deleted, until the group is finalized or selected again. The
// generation stays the same, because labels are not part of the spec.

// selections are edits that make the CompositeController stop or resume selecting the group.
var selections = []kind{
	{"the group is no longer selected", 2, false, func(w *world, _, _ int) { w.unselect() }},
	{"the group is selected again", 6, false, func(w *world, _, _ int) { w.selectAgain() }},
}

func (w *world) unselect() {
	k := &w.kube
	if k.group == nil || k.deleting() || k.unselected {
		return
	}
	// A label that changes and changes back within a third of a lease may reach different replicas: a known limit (docs/design.md, "A
	// finalize without deletionTimestamp").
	if since := time.Since(k.finalizeAsked); !k.finalizeAsked.IsZero() && since <= lease/3 {
		w.pass(lease/3 - since + time.Second)
	}
	k.unselected = true
}

func (w *world) selectAgain() { w.kube.unselected = false }

// checkUnselected checks the answer to a finalize call for a group that is not being deleted: the server must remove nothing (11).
func (w *world) checkUnselected(r *replica, c plan.Call, result *plan.Result) {
	if result.Finalized == (result.Refusal != nil) {
		w.violated("11: for a group that is not selected %s answers finalized: %v, refusal: %v", r.name, result.Finalized, result.Refusal)
	}
	if slices.ContainsFunc(result.Actions, func(a plan.Action) bool { return a.Op != plan.ConfirmGone }) {
		w.violated("11: for a group that is not selected %s plans %v", r.name, result.Actions)
	}
	if !result.Finalized {
		return
	}
	w.checkFinalized(c.Group.UID)
	if len(result.Children) != len(c.Children) {
		w.violated("11: a group is finalized without a deletion with %d children of %d", len(result.Children), len(c.Children))
	}
}

// checkLease checks a step that is about to call vCenter: its replica may only act for the length of a lease after a hook call to sync or to
// remove the group.
func (s *step) checkLease() {
	if ago := time.Since(s.by.called); s.a.Op != plan.ConfirmGone && ago > lease {
		s.violated("11: %s continues, and the last sync was %s ago", s, ago)
	}
}
