package loop

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// What an answer makes Metacontroller write can bring the next call: each write of a child does, and, once a group has a
// deletionTimestamp, each write of its status (the filter of ignoreStatusChanges in Metacontroller's composite/controller.go ends then).
// If that call's answer had the next step again, groups would be called, and written, as fast as Metacontroller's workers can. So while a
// group is worked on, what was written just now is answered as it is, until busyMost is over. When it was written is seen from the calls,
// so all replicas keep the same.

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

// keepWritten answers what was written just now as it is, if there is more to do.
func (g *group) keepWritten(r *plan.Result, now time.Time) {
	if len(r.Actions)+len(g.running) == 0 {
		return
	}
	if g.finalizing && now.Sub(g.statusWritten) < busyMost {
		r.Status = g.call.Group.Status
	}
	if now.Sub(g.membersWritten) >= busyMost {
		return
	}
	for i, child := range r.Children {
		if seen := g.call.Children[child.Key]; child.Key.Kind == plan.KindConfigMap && seen.LastApplied != "" {
			r.Children[i] = plan.Child{Key: child.Key, LastApplied: seen.LastApplied}
		}
	}
}
