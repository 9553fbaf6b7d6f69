package planner

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
	resyncWatched = 3 * time.Second // an operator has to act, in the first watchedFor
	resyncStalled = 8 * time.Second // and later: what the inventory shows is still reported within ten seconds
	resyncUnknown = 5 * time.Second

	watchedFor = 10 * time.Minute
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
	within := r.facts.Resync
	switch {
	case r.facts.abandoned():
		result.InProgress = true
	case !r.facts.vCenterKnown:
		within = resyncUnknown
	case r.facts.Finalizing && r.facts.paused():
	case r.facts.Finalizing:
		result.InProgress = true
	case r.blocked():
		within = r.resyncBlocked()
	case r.facts.paused():
	case r.facts.blockedBy != nil || r.busy() || r.steps.doing(standingBy, discarding) > 0 || r.decision.update.progress != nil || r.sets.countReady() < len(r.sets.members) || len(r.sets.unconfirmed()) > 0 || r.facts.awaitsService():
		result.InProgress = true
	case r.facts.Group.Spec.Service != nil, r.facts.Group.Spec.Readiness.Probes():
		within = resyncServed
	}
	if result.Wake > 0 && !r.facts.Finalizing {
		within = min(within, max(result.Wake, time.Second))
	}
	result.Resync = min(within, r.facts.Resync)
}

// resyncBlocked is the time for a group that waits for an operator. Many groups may wait for one vCenter for weeks, and their calls must not
// delay those for other groups.
func (r *report) resyncBlocked() time.Duration {
	stalled := meta.FindStatusCondition(r.facts.Group.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled != nil && stalled.Status == metav1.ConditionTrue && r.facts.Now.Sub(stalled.LastTransitionTime.Time) > watchedFor {
		return resyncStalled
	}
	return resyncWatched
}

// untilWake is after how long the plan must be made again although nothing has changed; zero if it depends on no time.
func (r *report) untilWake() time.Duration {
	all := wake{now: r.facts.Now}
	for _, at := range []time.Time{r.facts.shortOutageOver, r.sets.wake.at, r.decision.wake.at, r.steps.wake.at} {
		all.note(at)
	}
	return all.after()
}
