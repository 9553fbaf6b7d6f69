package planner_test

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestAnOperatorUndoesAGenerationThatWasNeverApplied(t *testing.T) {
	t.Parallel()
	o := served(3, v1alpha1.Service{})
	o.Group.Generation = 7
	o.State.VMs[1].Generation = 2_000_000_000
	if r := planner.Make(o); r.Status.Conditions[0].Reason != plan.ReasonSuperseded {
		t.Fatalf("Ready has the reason %s, not Superseded", r.Status.Conditions[0].Reason)
	}
	for value, undone := range map[string]bool{"2000000000": true, "1999999999": false, "all": false, "": false} {
		o.Group.Annotations = map[string]string{v1alpha1.AnnotationUndoGeneration: value}
		r := planner.Make(o)
		if held := r.Status.Conditions[0].Reason == plan.ReasonSuperseded; held == undone {
			t.Errorf("%q: %+v", value, r.Status)
		}
	}
	o.Group.Annotations = map[string]string{v1alpha1.AnnotationUndoGeneration: "2000000000"}
	o.State.VMs[2].Generation = 2_000_000_001 // another replica knows a newer spec
	if r := planner.Make(o); r.Status.Conditions[0].Reason != plan.ReasonSuperseded {
		t.Errorf("a generation newer than the undone one does not supersede: %+v", r.Status)
	}
}
