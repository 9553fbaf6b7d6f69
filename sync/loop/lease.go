package loop

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// lease is what hook calls permit: to make the group as the newest of them says, for a while after it came.
type lease struct {
	call            plan.Call    // the newest
	claims          []plan.Claim // of its spec
	renewed         time.Time    // when it came
	calls           int          // that renewed it
	finalizing      bool         // sticky: a finalizing group comes back only from a backup
	finalizingSince time.Time
	orphaned        bool                   // sticky: a call of its deletion showed that its dependents are to stay
	emptied         bool                   // ConfirmGone succeeded since
	newestStamp     int64                  // the highest generation seen in a stamp: another replica has a newer call
	older           older                  // calls since the newest that are older than it
	newReplace      []v1alpha1.Replacement // the entries of spec.replace that came with its generation: see plan.Observed
}

// older are the calls that came after the newest one of a lease, and that are older: none came in between that is not. While there are any,
// no step begins. One of three things has happened. A call was delayed, or its sender's cache lags behind: then newer calls follow. Or etcd was
// restored from a backup: then none follows, for a whole lease, and what is answered to these calls is in the status of later ones. A cache that
// lags behind, for however long, never shows that: Kubernetes has stored the newer object, so no answer is stored in an older one.
type older struct {
	since time.Time      // when the first came; zero: there is none
	last  plan.OlderCall // the newest of them
	said  string         // the message with which it was answered
}

// restored takes one more of these calls, and reports whether they show that etcd was restored from a backup.
func (x *older) restored(call *plan.Call, now time.Time, lease time.Duration) bool {
	if x.since.IsZero() {
		x.since = now
	}
	x.last = plan.OlderCall{Generation: call.Group.Generation, Children: call.Children}
	return x.said != "" && call.Group.Status.LastMessage == x.said && now.Sub(x.since) > lease
}

// answered notes the answer to the newest of these calls.
func (x *older) answered(r *plan.Result) {
	if !x.since.IsZero() && hasReason(&r.Status, plan.ReasonSuperseded) {
		x.said = r.Status.LastMessage
	}
}

// hasReason reports whether a status gives that reason for the group not being ready.
func hasReason(s *v1alpha1.VmGroupStatus, reason string) bool {
	ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == reason
}

// outdates reports whether a call is older than the newest: it renews nothing. A call with a lower generation than known
// is, unless an operator undoes that very generation; and, whatever its generation, one that is older than the deletion.
func (x *lease) outdates(call *plan.Call) bool {
	if x.finalizing && !call.Finalizing && call.Group.DeletionTimestamp.IsZero() {
		return true
	}
	return x.call.Group != nil && call.Group.Generation < x.call.Group.Generation && !call.Finalizing &&
		call.Group.UndoneGeneration() != x.call.Group.Generation
}

// begins reports whether a call is the first of the group's deletion.
func (x *lease) begins(call *plan.Call) bool { return call.Finalizing && !x.finalizing }

// differs reports whether an operator has changed the spec, or its user data, since the newest call, or asks for another try.
func (x *lease) differs(call *plan.Call) bool {
	return x.call.Group != nil && (call.Group.Generation > x.call.Group.Generation || !call.Finalizing && call.Related.Digest != x.call.Related.Digest ||
		call.Group.Annotations[v1alpha1.AnnotationTryAgain] != x.call.Group.Annotations[v1alpha1.AnnotationTryAgain])
}

// asks reports whether a call differs from the newest one only in that an operator asks for another try.
func (x *lease) asks(call *plan.Call) bool {
	return x.call.Group != nil && call.Group.Generation == x.call.Group.Generation && call.Related.Digest == x.call.Related.Digest
}

// renew stores a call that is not stale.
func (x *lease) renew(call plan.Call, now time.Time) {
	if x.begins(&call) {
		x.finalizing, x.finalizingSince, x.emptied = true, now, false
	}
	again := !x.older.since.IsZero() // of this generation there may have been another spec before
	if was := x.call.Group; was != nil && (call.Group.Generation > was.Generation || again) {
		x.newReplace = slices.DeleteFunc(slices.Clone(call.Group.Spec.Replace), func(r v1alpha1.Replacement) bool { return slices.Contains(was.Spec.Replace, r) })
	}
	if was := x.call.Group; was == nil || call.Group.Generation != was.Generation || again {
		x.claims = plan.ClaimsOf(call.Group)
	}
	if x.newestStamp <= call.Group.UndoneGeneration() { // what was known of it is no reason to wait any more; the stamps that there are now are
		x.newestStamp = 0
	}
	x.call, x.renewed, x.calls, x.older = call, now, x.calls+1, older{}
	x.orphaned = x.orphaned || call.Cascade == metav1.DeletePropagationOrphan
}

// expire ends the lease, which lasts that long.
func (x *lease) expire(now time.Time, lease time.Duration) {
	if over := now.Add(-lease - 1); x.renewed.After(over) {
		x.renewed = over
	}
}

// saw remembers the highest generation in the stamps, but for those up to the one that an operator undoes: once its VMs are gone, only a lower one may be
// left, which the operator undoes then.
func (x *lease) saw(o *plan.Observed) {
	for i := range o.State.VMs {
		if generation := o.State.VMs[i].Generation; generation > o.Group.UndoneGeneration() {
			x.newestStamp = max(x.newestStamp, generation)
		}
	}
}
