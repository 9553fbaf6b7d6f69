package planner_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// unknown is a group of three that is RUNNING, whose vCenter is unknown since that time.
func unknown(t *testing.T, since time.Time) plan.Observed {
	o := served(3, v1alpha1.Service{})
	r := planner.Make(o)
	apply(t, &o, &r)
	store(t, &o, &r)
	o.Group.Status.ObservedGeneration = o.Group.Generation
	o.State = plan.VCenterState{UnknownSince: since, Fault: &plan.Fault{Reason: "VCenterUnreachable", Message: "no answer"}}
	*o.Group.Spec.Replicas = 3
	return o
}

func TestAShortOutageIsNotReportedAndNothingIsDoneDuringIt(t *testing.T) {
	t.Parallel()
	o := unknown(t, now)
	was := asJSON(t, o.Group.Status)
	children := len(o.Children)
	for _, after := range []time.Duration{0, 2 * time.Second, 9 * time.Second} {
		o.Now = now.Add(after)
		r := planner.Make(o)
		if is := asJSON(t, r.Status); is != was {
			t.Errorf("after %s: %s", after, difference(was, is))
		}
		if len(r.Actions) > 0 || len(r.Children) != children || len(r.Events) > 0 || r.Wake != 10*time.Second-after {
			t.Errorf("after %s: actions %v, %d children, notes %v, wakes after %s", after, r.Actions, len(r.Children), r.Events, r.Wake)
		}
	}
	o.Now = now.Add(10 * time.Second)
	r := planner.Make(o)
	if r.Status.Phase != v1alpha1.PhasePending || r.Status.Conditions[0].Status != metav1.ConditionUnknown {
		t.Errorf("after ten seconds it is %s, and ready is %s", r.Status.Phase, r.Status.Conditions[0].Status)
	}
}

func TestAShortOutageIsReportedAtOnceWhereTheStoredStatusIsOutOfDate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*plan.Observed){
		"vCenter was not known before": func(o *plan.Observed) { o.State.UnknownSince = time.Time{} },
		"an operator has to act":       func(o *plan.Observed) { o.State.Fault.NeedsOperator = true },
		"the spec was edited":          func(o *plan.Observed) { o.Group.Generation++ },
		"there is no status yet":       func(o *plan.Observed) { o.Group.Status = v1alpha1.VmGroupStatus{} },
		"it is deleted":                func(o *plan.Observed) { remove(o); o.Group.Generation++ },
		"it is deleted, and abandoned": func(o *plan.Observed) {
			remove(o)
			o.Group.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
		},
	} {
		o := unknown(t, now)
		was := asJSON(t, o.Group.Status)
		change(&o)
		if r := planner.Make(o); asJSON(t, r.Status) == was || len(r.Actions) > 0 {
			t.Errorf("%s: it says %s, and does %v", name, r.Status.LastMessage, r.Actions)
		}
	}
}
