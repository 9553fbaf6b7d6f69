package tell

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A part of an earlier status stands for several reasons. Each has another end, and keeps something else, so they share no code:
//
//	what stands                                 while                                                  where
//	------------------------------------------  -----------------------------------------------------  -----------------------------------
//	all, but for how far a deletion is          vCenter's state has been unknown for a moment only     planner/shortoutage.go, status.go
//	all figures, and conditions as last known   vCenter's state is unknown, or is another vCenter's    status.go, this file
//	how far updates and trials are              the group is blocked or deleted, so none goes on       status.go
//	when a condition or readiness began         Kubernetes hasn't stored the status planned last       plan.Observed.LastPlannedStatus
//	what was just written                       another answer would bring another call at once        loop/debounce.go
//
// While vCenter's state is unknown, the status keeps the conditions from before the outage as last known, with their times: a group that waits
// for an operator does so during an outage, too, also if it is being deleted. That applies to conditions of the present generation; after an edit of the spec, they are
// unknown.

const asLastKnown = "as last known: "

// lastKnown returns a condition that was found before the outage, for this generation; nil if there is none, or no outage.
func (r *report) lastKnown(kind string, status metav1.ConditionStatus) *metav1.Condition {
	if r.State.Known || r.contested() || r.Abandoned {
		return nil
	}
	c := meta.FindStatusCondition(r.Group.Status.Conditions, kind)
	if c == nil || c.Status != status || c.ObservedGeneration != r.Group.Generation {
		return nil
	}
	return c
}

// wasStalled returns why the group waited for an operator before the outage; nil if it didn't, or if the spec, which is known, was why.
func (r *report) wasStalled() *metav1.Condition {
	stalled := r.lastKnown(v1alpha1.ConditionStalled, metav1.ConditionTrue)
	if stalled == nil || r.Invalid != nil || stalled.Reason == plan.ReasonInvalidSpec {
		return nil
	}
	return stalled
}

// saidAsLastKnown says that what a condition says is as last known, once.
func saidAsLastKnown(c *metav1.Condition) string {
	return strings.TrimSuffix(asLastKnown+strings.TrimPrefix(c.Message, asLastKnown), ": ")
}
