package planner_test

import (
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestAGroupThatWaitsForAnOperatorAsksOftenForTenMinutes(t *testing.T) {
	o := observed(1)
	o.State.Template = plan.Template{Datacenter: "DC0"}
	for _, c := range []struct{ after, want time.Duration }{
		{0, 3 * time.Second}, {9 * time.Minute, 3 * time.Second}, {2 * time.Minute, 8 * time.Second}, {200 * time.Hour, 8 * time.Second},
	} {
		o.Now = o.Now.Add(c.after)
		r := planner.Make(o)
		if r.Resync != c.want {
			t.Errorf("%s after its beginning it asks for a call in %s, not %s", o.Now.Sub(now), r.Resync, c.want)
		}
		o.Group.Status = r.Status
	}
}
