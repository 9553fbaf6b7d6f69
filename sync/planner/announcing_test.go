package planner_test

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// Two replicas mark different members at once, and each sees the other's mark before its own has returned. If both took
// down the other's, two would be down where one can be. (Found by the model in test/world, seed 102521.)
func TestNoServingMemberIsTakenDownWhileAMarkIsInProgress(t *testing.T) {
	for _, why := range []plan.Why{plan.WhyUpdate, plan.WhyPowerCycle} {
		o := observed(4)
		addMembers(&o, 4, func(m *plan.VM) {
			if why == plan.WhyPowerCycle {
				m.CPU++
			} else {
				m.Revision = "0123456789"
			}
		})
		theirs, ours := &o.State.VMs[3], &o.State.VMs[2]
		theirs.Marked, theirs.Why = true, why
		takesDown := func() bool {
			r := planner.Make(o)
			return r.Wants(theirs.Name, plan.PowerOff) || r.Wants(theirs.Name, plan.ShutdownGuest)
		}
		if !takesDown() {
			t.Fatalf("%s: the marked member is not taken down: the test proves nothing", why)
		}
		o.Pending = map[string]plan.Pending{ours.Name: {Op: plan.Mark, Ordinal: ours.Ordinal, MoRef: ours.MoRef, State: plan.Running, Why: why}}
		if takesDown() {
			t.Errorf("%s: a member that serves is taken down by another replica's mark, while that of ours is running", why)
		}
		theirs.Power = plan.PoweredOff // it is carried out
		if r := planner.Make(o); len(r.Actions) == 0 {
			t.Errorf("%s: what is down already waits", why)
		}
	}
}
