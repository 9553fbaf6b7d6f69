package loop

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The write debounce. A write by Metacontroller can bring the next call: each write of a child does, and, once a group has a
// deletionTimestamp, each write of its status (the filter of ignoreStatusChanges in Metacontroller's composite/controller.go ends then).
// If each answer to such a call had the next step, Metacontroller would call and write as fast as its workers can. So while a group is in
// progress, the server repeats what was just written, until writtenFor is over. The calls show when it was written, so all replicas repeat
// the same. When many groups are in progress at once, each is written less often, because writes cost the API server most: of deleted ones
// the status, of others the ConfigMap of members. The Events of a deletion are writes, too, and wait for the next status.

// writtenFor is how long the server repeats what was written.
const writtenFor = 2 * time.Second

// standsTimes is for how many calls the ConfigMap of members is repeated, and a deleted group's status while the only change is the number of
// remaining VMs. What people and programs read of a group is no older than standsLongest for that.
const (
	standsTimes   = 6
	standsLongest = 30 * time.Second
)

// sawWrites notes what differs between a call and the one before.
func (g *group) sawWrites(call *plan.Call, now time.Time) {
	if g.lease.finalizing && !equality.Semantic.DeepEqual(call.Group.Status, g.lease.call.Group.Status) {
		g.answers.statusWritten = now
	}
	for key, child := range call.Children {
		if key.Kind == plan.KindConfigMap && child.LastApplied != g.lease.call.Children[key].LastApplied {
			g.answers.membersWritten = now
		}
	}
}

// keepWritten repeats what was just written, if there is more to do, and reports whether it repeats the status of a deletion. pause is the
// time between two calls of a group in progress.
func (g *group) keepWritten(r *plan.Result, pause time.Duration, now time.Time) (status bool) {
	rarely := min(max(writtenFor, standsTimes*pause), standsLongest)
	if len(r.Actions)+len(g.runs) == 0 {
		return false
	}
	if g.lease.finalizing {
		stands := writtenFor
		if sameConditions(r.Status.Conditions, g.lease.call.Group.Status.Conditions) {
			stands = rarely
		}
		if status = now.Sub(g.answers.statusWritten) < stands; status {
			orphaned := r.Status.Orphaned // written at once: no later call shows the garbage collector's finalizer
			r.Status = g.lease.call.Group.Status
			r.Status.Orphaned = orphaned
		}
	}
	if now.Sub(g.answers.membersWritten) >= rarely {
		return status
	}
	for i, child := range r.Children {
		if seen := g.lease.call.Children[child.Key]; child.Key.Kind == plan.KindConfigMap && seen.LastApplied != "" {
			r.Children[i] = plan.Child{Key: child.Key, LastApplied: seen.LastApplied}
		}
	}
	return status
}

// sameConditions reports whether two lists say the same, but for the words of their messages.
func sameConditions(a, b []metav1.Condition) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.Condition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason
	})
}
