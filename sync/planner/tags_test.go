package planner_test

import (
	"slices"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestTagsAreComparedAgainWhereTheyMayBeLost(t *testing.T) {
	t.Parallel()
	asked := func(o *plan.Observed) { o.Group.Annotations = map[string]string{v1alpha1.AnnotationTryAgain: "now"} }
	for name, c := range map[string]struct {
		happens func(*plan.Observed)
		again   bool
	}{
		"nothing":                               {func(*plan.Observed) {}, false},
		"it has another moRef":                  {func(o *plan.Observed) { o.State.VMs[0].Tagged.MoRef = "vm-8" }, true},
		"an operator asks":                      {asked, true},
		"an operator asks, and was answered":    {func(o *plan.Observed) { asked(o); o.State.VMs[0].Tagged.Asked = plan.TryAgainOf(o.Group) }, false},
		"another process answered a later call": {func(o *plan.Observed) { asked(o); o.State.VMs[0].Tagged.At = o.Called.Add(time.Second) }, false},
		"the annotation is gone":                {func(o *plan.Observed) { o.State.VMs[0].Tagged.Asked = "c0ffee12" }, false},
		"an older version of the server made it, or it was adopted": {func(o *plan.Observed) { o.State.VMs[0].Tagged = plan.Tagged{} }, false},
		"it has no tags": {func(o *plan.Observed) {
			o.Group.Spec.Tags = nil
			o.State.VMs[0].Prepared = ""
			o.State.VMs[0].Tagged.MoRef = "vm-8"
		}, false},
		"it can't be reached": {func(o *plan.Observed) { o.State.VMs[0].Tagged.MoRef = "vm-8"; o.State.VMs[0].Reachable = false }, false},
	} {
		o := observed(1)
		o.Group.Spec.Tags = []v1alpha1.Tag{{Category: "firewall", Name: "web"}}
		addMembers(&o, 1, func(m *plan.VM) {
			m.Folder, m.Tools, m.IPs, m.BootTime = "group-v7", true, []string{"192.0.2.7"}, now.Add(-time.Hour)
			m.Tagged = plan.Tagged{MoRef: m.MoRef, At: now.Add(-time.Hour)}
		})
		c.happens(&o)
		r := planner.Make(o)
		if again := slices.ContainsFunc(r.Actions, func(a plan.Action) bool { return a.Op == plan.Prepare }); again != c.again {
			t.Errorf("%s: compared again: %t, want %t: %+v", name, again, c.again, r.Actions)
		}
	}
}
