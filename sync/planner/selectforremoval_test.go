package planner

import (
	"fmt"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestMembersGoInTheOrderOfTheirStateAndThenOfTheSpec(t *testing.T) {
	t.Parallel()
	made := func(day int) time.Time { return time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC) }
	for order, want := range map[v1alpha1.ScaleInOrder]string{
		"":                             "[web-8 web-7 web-6 web-5 web-4 web-3 web-2 web-1 web-0]",
		v1alpha1.ScaleInHighestOrdinal: "[web-8 web-7 web-6 web-5 web-4 web-3 web-2 web-1 web-0]",
		v1alpha1.ScaleInOldest:         "[web-8 web-7 web-6 web-5 web-4 web-1 web-3 web-2 web-0]",
		v1alpha1.ScaleInNewest:         "[web-8 web-7 web-6 web-5 web-4 web-3 web-2 web-1 web-0]",
	} {
		members := []member{
			{ready: true, VM: plan.VM{Created: made(1)}}, // protected, and otherwise the oldest
			{ready: true, VM: plan.VM{Created: made(2)}},
			{ready: true, VM: plan.VM{Created: made(3)}}, // as old as web-3: the highest ordinal goes first
			{ready: true, VM: plan.VM{Created: made(3)}},
			{ready: true, outdated: "template"},
			{ready: true, VM: plan.VM{Marked: true, MarkReason: plan.MarkReasonPowerCycle}}, // about to be taken down for its size
			{}, // unhealthy
			{ready: true},
			{ready: true, VM: plan.VM{Marked: true, MarkReason: plan.MarkReasonScaleIn}},
		}
		for i := range members {
			members[i].Ordinal, members[i].name = int32(i), fmt.Sprintf("web-%d", i)
		}
		s := &sets{facts: &facts{Observed: &plan.Observed{Group: &v1alpha1.VmGroup{}},
			policy: Policy{Order: order, Protected: []string{"web-0"}, RemoveFirst: []string{"web-7"}}}}
		var got []string
		for _, i := range s.orderOf(members) {
			got = append(got, members[i].name)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: they go in the order %v, want %s", order, got, want)
		}
	}
}
