package planner_test

import (
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Only a message that needs an operator has a link to the documents, so that an upgrade that changes links writes no status of a healthy group.
func TestAMessageThatNeedsAnOperatorNamesItsPlaceInTheDocuments(t *testing.T) {
	seen := map[v1alpha1.Phase]int{}
	everyResult(func(name string, r *plan.Result) {
		seen[r.Status.Phase]++
		stalled := r.Status.Phase == v1alpha1.PhaseError
		if says := strings.Contains(r.Status.LastMessage, "docs/troubleshooting.md#"); says != stalled && !strings.Contains(r.Status.LastMessage, "#superseded") {
			t.Errorf("%s: %s: %s", name, r.Status.Phase, r.Status.LastMessage)
		}
		for _, c := range r.Status.Conditions {
			switch says := strings.Contains(c.Message, plan.Help(c.Reason)); {
			case c.Type == v1alpha1.ConditionStalled && says != stalled && c.Reason != plan.ReasonPaused:
				t.Errorf("%s: %s: the reason of Stalled is %s: %s", name, r.Status.Phase, c.Reason, c.Message)
			case !stalled && says && c.Reason != plan.ReasonSuperseded:
				t.Errorf("%s: %s: %s: %s", name, r.Status.Phase, c.Type, c.Message)
			}
		}
	})
	if seen[v1alpha1.PhaseError] < 10 || seen[v1alpha1.PhaseRunning] < 10 || seen[v1alpha1.PhasePending] < 10 {
		t.Errorf("the stories produce %v", seen)
	}
}
