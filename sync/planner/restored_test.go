package planner_test

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// A cluster was restored from a backup, and the group is deleted there; the cluster of which the backup is may still serve the VMs. The deletion
// raises the generation by one.
func TestADeletionOfAGroupThatWasNewerWaitsForAWord(t *testing.T) {
	t.Parallel()
	annotation := func(key, value string) func(*plan.Observed) {
		return func(o *plan.Observed) { o.Group.Annotations = map[string]string{key: value} }
	}
	const newer = 4 // the group has generation 3 before its deletion
	for name, c := range map[string]struct {
		change             func(*plan.Observed)
		removes, finalized bool
	}{
		"no VM was changed by a newer spec": {change: func(o *plan.Observed) { o.State.VMs[1].Generation = newer - 1 }, removes: true},
		"one VM was":                        {},
		"one VM was, by far":                {change: func(o *plan.Observed) { o.State.VMs[1].Generation = 17 }},
		"one that is gone was":              {change: func(o *plan.Observed) { o.State.VMs[1].Generation, o.NewestStamp = 1, 17 }},
		"this deletion may have marked it":  {change: func(o *plan.Observed) { o.State.VMs[1].Marked = true }, removes: true},
		"and the server's clock is slow": {change: func(o *plan.Observed) {
			o.FinalizingSince, o.State.VMs[1].Shutdown.At = now.Add(-time.Hour), now.Add(-time.Hour)
		}, removes: true},
		"and that of the first process was": {change: func(o *plan.Observed) {
			o.Group.Status.FinalizingSince.Time, o.State.VMs[1].Shutdown.At = now.Add(-time.Hour), now.Add(-time.Hour)
		}, removes: true},
		"it was asked long before":                              {change: func(o *plan.Observed) { o.State.VMs[1].Shutdown.At = now.Add(-time.Hour) }},
		"this deletion asked its guest":                         {change: func(o *plan.Observed) { o.State.VMs[1].Shutdown.At = now }, removes: true},
		"a caller that isn't Kubernetes gives it no generation": {change: func(o *plan.Observed) { o.Group.ResourceVersion = "" }, removes: true},
		"that generation is undone":                             {change: annotation(v1alpha1.AnnotationUndoGeneration, strconv.Itoa(newer)), removes: true},
		"another one is":                                        {change: annotation(v1alpha1.AnnotationUndoGeneration, strconv.Itoa(newer-1))},
		"the VMs are to be left":                                {change: annotation(v1alpha1.AnnotationAbandon, "true"), finalized: true},
	} {
		o := atWork(2)
		remove(&o)
		o.State.VMs[1].Generation = newer
		if c.change != nil {
			c.change(&o)
		}
		r := planner.Make(o)
		if removes := len(r.Actions) > 0; removes != c.removes || r.Finalized != c.finalized {
			t.Errorf("%s: %v, finalized: %v; %s", name, r.Actions, r.Finalized, r.Status.LastMessage)
		}
		if waits := r.Status.Phase == v1alpha1.PhaseError && r.Status.Conditions[0].Reason == plan.ReasonSuperseded; waits == (c.removes || c.finalized) {
			t.Errorf("%s: %s %q", name, r.Status.Phase, r.Status.LastMessage)
		}
	}
}

func TestNothingIsDoneForACallThatIsOlderThanTheNewest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		o.Older = &plan.OlderCall{Generation: o.Group.Generation - 1}
		if rapid.Bool().Draw(t, "abandoned") {
			o.Group.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
		}
		if rapid.Bool().Draw(t, "a lost generation of the same number was undone") {
			o.Group.Annotations = map[string]string{v1alpha1.AnnotationUndoGeneration: strconv.FormatInt(o.Group.Generation, 10)}
		}
		r := planner.Make(o)
		if len(r.Actions) > 0 || r.Finalized || meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady) {
			t.Fatalf("%v, finalized: %v, %s %q", r.Actions, r.Finalized, r.Status.Phase, r.Status.LastMessage)
		}
	})
}
