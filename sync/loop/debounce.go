package loop

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The write debounce. What an answer makes Metacontroller write can bring the next call: each write of a child does, and, once a group has a
// deletionTimestamp, each write of its status (the filter of ignoreStatusChanges in Metacontroller's composite/controller.go ends then).
// If that call's answer had the next step again, groups would be called, and written, as fast as Metacontroller's workers can. So while a
// group is worked on, what was written just now is answered as it is, until writtenFor is over. When it was written is seen from the calls,
// so all replicas keep the same. Where many groups go at once, what is left of each is written less often: writes are what
// cost the API server most.

// writtenFor is how long what was written stays.
const writtenFor = 2 * time.Second

// goingTimes is how many calls long the status of a group in deletion stands while it would only tell that less is left.
const goingTimes = 6

// sawWrites takes note of what a call shows otherwise than the one before.
func (g *group) sawWrites(call *plan.Call, now time.Time) {
	if g.finalizing && !equality.Semantic.DeepEqual(call.Group.Status, g.call.Group.Status) {
		g.statusWritten = now
	}
	for key, child := range call.Children {
		if key.Kind == plan.KindConfigMap && child.LastApplied != g.call.Children[key].LastApplied {
			g.membersWritten = now
		}
	}
}

// keepWritten answers what was written just now as it is, if there is more to do. going is how long the status of a deletion is kept.
func (g *group) keepWritten(r *plan.Result, going time.Duration, now time.Time) {
	if len(r.Actions)+len(g.running) == 0 {
		return
	}
	if g.finalizing {
		stands := writtenFor
		if sameConditions(r.Status.Conditions, g.call.Group.Status.Conditions) {
			stands = going
		}
		if now.Sub(g.statusWritten) < stands {
			orphaned := r.Status.Orphaned // is written at once: the garbage collector's finalizer won't be seen again
			r.Status = g.call.Group.Status
			r.Status.Orphaned = orphaned
		}
	}
	if now.Sub(g.membersWritten) >= writtenFor {
		return
	}
	for i, child := range r.Children {
		if seen := g.call.Children[child.Key]; child.Key.Kind == plan.KindConfigMap && seen.LastApplied != "" {
			r.Children[i] = plan.Child{Key: child.Key, LastApplied: seen.LastApplied}
		}
	}
}

// sameConditions reports whether two lists say the same, but for the words of their messages.
func sameConditions(a, b []metav1.Condition) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.Condition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason
	})
}
