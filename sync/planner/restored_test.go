package planner_test

import (
	"testing"

	"pgregory.net/rapid"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestNothingIsDoneForACallThatIsOlderThanTheNewest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		o.Older = &plan.OlderCall{Generation: o.Group.Generation - 1}
		if rapid.Bool().Draw(t, "abandoned") {
			o.Group.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
		}
		r := planner.Make(o)
		if len(r.Actions) > 0 || r.Finalized || meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady) {
			t.Fatalf("%v, finalized: %v, %s %q", r.Actions, r.Finalized, r.Status.Phase, r.Status.LastMessage)
		}
	})
}
