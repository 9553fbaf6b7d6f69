package planner

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// seen is what a status says of a state: whether the status has the state, and since when it has it, or doesn't.
type seen struct {
	is bool
	at time.Time
}

// sinceWhen returns since when a state lasts; zero if that isn't known. The time in the stored status stands, so that all replicas and a
// restarted process say the same. What this process noticed counts while no call has stored it: that is the case if the stored status has
// another state, from an earlier time. A stored state that changed later than that comes from another replica.
func sinceWhen(stored, noticed *seen) time.Time {
	switch {
	case stored != nil && stored.is && !stored.at.IsZero():
		return stored.at
	case noticed != nil && noticed.is && (stored == nil || noticed.at.After(stored.at)):
		return noticed.at
	}
	return time.Time{}
}

// seenReady is what a member's status says of its being ready, or not ready; nil without a status.
func seenReady(m *v1alpha1.Member, ready bool) *seen {
	if m == nil {
		return nil
	}
	return &seen{is: m.Ready == ready, at: m.LastTransitionTime.UTC()}
}

// seenCondition is what a list of conditions says of one that has a status for which is returns true; nil if the list doesn't have it.
func seenCondition(list []metav1.Condition, kind string, is func(metav1.ConditionStatus) bool) *seen {
	c := meta.FindStatusCondition(list, kind)
	if c == nil {
		return nil
	}
	return &seen{is: is(c.Status), at: c.LastTransitionTime.Time}
}
