package planner_test

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestAForecastShowsWhatBlocksTheGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*plan.Observed)
		reason string
		steps  bool
	}{
		"nothing":                           {func(*plan.Observed) {}, "", false},
		"nothing, and it is scaled":         {func(o *plan.Observed) { o.Group.Spec.Replicas = new(int32(3)) }, "", true},
		"the template is missing":           {func(o *plan.Observed) { o.Group.Spec.Replicas = new(int32(3)); o.State.Template = plan.Template{} }, "TemplateNotFound", false},
		"members go, others cannot be made": {func(o *plan.Observed) { o.Group.Spec.Template = "another"; o.State.Template = plan.Template{} }, "TemplateNotFound", false},
		"the inventory is being read":       {func(o *plan.Observed) { o.State.Known = false }, plan.ReasonInventoryNotRead, false},
		"vCenter does not answer": {func(o *plan.Observed) {
			o.State.Known, o.State.Fault = false, &plan.Fault{Reason: "VCenterUnreachable", Message: "down", Transient: true}
		}, "VCenterUnreachable", false},
		"nothing, and it is deleted": {func(o *plan.Observed) { remove(o) }, "", true},
	} {
		o := atWork(2)
		c.change(&o)
		if f := planner.Forecast(o); f.Blocked.Reason != c.reason || (f.Blocked.Message == "") != (c.reason == "") || len(f.Steps) > 0 != c.steps {
			t.Errorf("%s: %+v, %d steps", name, f.Blocked, len(f.Steps))
		}
	}
}
