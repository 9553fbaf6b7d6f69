package planner

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// When Metacontroller should call next at the latest, to bring the status up to date: while members come and go, while an operator has
// to act, and while vCenter's state is unknown. A settled group is called at the resync period; one with a
// Service more often, because only hook calls bring its endpoints up to date; and one with a probe, because its readiness may change at any time.
const (
	resyncBusy    = 2 * time.Second
	resyncServed  = 5 * time.Second
	resyncWatched = 3 * time.Second // an operator has to act, in the first watchedFor
	resyncStalled = 8 * time.Second // and later: what the inventory shows is still reported within ten seconds
	resyncUnknown = 5 * time.Second

	watchedFor = 10 * time.Minute
)

// setNextCall sets when the next hook call is to come, at the latest, and whether the group is in progress. Then package loop has
// it called as often as the groups in progress can be (sync/loop/nextcall.go), whatever the table says.
//
//	the group                                                    is called within
//	-----------------------------------------------------------  ------------------------------------------
//	abandoned                                                    in progress: resyncBusy
//	vCenter's state is unknown                                   resyncUnknown
//	paused, and deleted                                          the resync period
//	deleted                                                      in progress: resyncBusy
//	an operator has to act                                       resyncWatched, later resyncStalled
//	paused                                                       the resync period
//	held back, busy, an update runs, a member is unready or      in progress: resyncBusy
//	unconfirmed
//	has a Service or a probe                                     resyncServed
//	any other                                                    the resync period
//
// and in no case later than the resync period, nor, unless it is deleted, than wake.
func (v *report) setNextCall(r *plan.Result) {
	within := v.Resync
	switch {
	case v.abandoned():
		r.InProgress = true
	case !v.sighted:
		within = resyncUnknown
	case v.Finalizing && v.paused():
	case v.Finalizing:
		r.InProgress = true
	case v.blocked():
		within = v.resyncBlocked()
	case v.paused():
	case v.blockedBy != nil || v.busy() || v.doing(standingBy, discarding) > 0 || v.update != nil || v.countReady() < len(v.members) || len(v.unconfirmed()) > 0:
		r.InProgress = true
	case v.Group.Spec.Service != nil, v.Group.Spec.Readiness.Probes():
		within = resyncServed
	}
	if r.InProgress {
		within = resyncBusy
	}
	if r.Wake > 0 && !v.Finalizing {
		within = min(within, max(r.Wake, time.Second))
	}
	r.Resync = min(within, v.Resync)
}

// resyncBlocked is for a group that waits for an operator. Many groups may wait for one vCenter for weeks: their calls must
// not keep Metacontroller from the others.
func (v *report) resyncBlocked() time.Duration {
	stalled := meta.FindStatusCondition(v.Group.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled != nil && stalled.Status == metav1.ConditionTrue && v.Now.Sub(stalled.LastTransitionTime.Time) > watchedFor {
		return resyncStalled
	}
	return resyncWatched
}

// untilWake is after how long the plan must be made again although nothing has changed; zero if it depends on no time.
func (v *report) untilWake() time.Duration {
	if v.wake.IsZero() {
		return 0
	}
	return v.wake.Sub(v.Now)
}
