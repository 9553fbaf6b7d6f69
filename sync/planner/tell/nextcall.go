package tell

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// When Metacontroller should call next at the latest, so that the status is up to date: while members are created or removed, while an operator
// has to act, and while vCenter's state is unknown. A settled group is called at the resync period. A group with a Service is called more often,
// because only hook calls bring its endpoints up to date, and so is a group with a probe, whose readiness can change at any time.
const (
	resyncServed  = 5 * time.Second
	resyncWatched = 3 * time.Second // an operator has to act, since stalledLong at most
	resyncStalled = 8 * time.Second // and later: what the inventory shows is still reported within ten seconds
	resyncUnknown = 5 * time.Second

	stalledLong = 10 * time.Minute
)

// setNextCall sets when the next hook call is to come at the latest, and whether the group is in progress. A group in progress is called as
// often as all such groups can be (sync/loop/nextcall.go).
//
//	the group                                                    is called within
//	-----------------------------------------------------------  ------------------------------------------
//	abandoned                                                    in progress
//	vCenter's state is unknown                                   resyncUnknown
//	paused, and deleted                                          the resync period
//	deleted                                                      in progress
//	an operator has to act                                       resyncWatched, later resyncStalled
//	paused                                                       the resync period
//	blocked, busy,   an update runs, a member is unready or      in progress
//	unconfirmed, its Service does not exist
//	has a Service or a probe                                     resyncServed
//	any other                                                    the resync period
//
// and in no case later than the resync period, nor, unless it is deleted, than wake.
func (r *report) setNextCall(result *plan.Result) {
	within := r.Resync
	switch {
	case r.Abandoned:
		result.InProgress = true
	case !r.VCenterKnown:
		within = resyncUnknown
	case r.Finalizing && r.paused():
	case r.Finalizing:
		result.InProgress = true
	case r.blocked():
		within = r.resyncBlocked()
	case r.paused():
	case r.BlockedBy != nil || r.busy() || r.does(func(a *plan.Activity) bool { return a.Standby }) || r.Update.Progress != nil || r.countReady() < len(r.Members) || len(r.Unconfirmed) > 0 || r.AwaitsService:
		result.InProgress = true
	case r.Group.Spec.Service != nil, r.Group.Spec.Readiness.Probes():
		within = resyncServed
	}
	if result.Wake > 0 && !r.Finalizing {
		within = min(within, max(result.Wake, time.Second))
	}
	result.Resync = min(within, r.Resync)
}

// resyncBlocked is the time for a group that waits for an operator. Many groups may wait for one vCenter for weeks, and their calls must not
// delay those for other groups.
func (r *report) resyncBlocked() time.Duration {
	stalled := meta.FindStatusCondition(r.Group.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled != nil && stalled.Status == metav1.ConditionTrue && r.Now.Sub(stalled.LastTransitionTime.Time) > stalledLong {
		return resyncStalled
	}
	return resyncWatched
}
