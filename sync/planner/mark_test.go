package planner_test

import (
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestAMarkKeepsWhenAndWhyAMemberWasChosenFirst(t *testing.T) {
	before, later := now.Add(-time.Minute), now
	marked := func(why plan.MarkReason) plan.VM {
		return plan.VM{Marked: true, MarkReason: why, MarkedAt: before, Generation: 7}
	}
	for name, c := range map[string]struct {
		vm   plan.VM
		a    plan.Action
		want plan.VM
	}{
		"a member that was not chosen": {plan.VM{Generation: 2}, plan.Action{Op: plan.Mark, Args: plan.MarkArgs{Reason: plan.MarkReasonHealing}, Generation: 3},
			plan.VM{Marked: true, MarkReason: plan.MarkReasonHealing, MarkedAt: later, Generation: 3}},
		"one that goes for another reason now": {marked(plan.MarkReasonScaleIn), plan.Action{Op: plan.Mark, Args: plan.MarkArgs{Reason: plan.MarkReasonUpdate}, Generation: 8},
			plan.VM{Marked: true, MarkReason: plan.MarkReasonUpdate, MarkedAt: before, Generation: 8}},
		"a deletion keeps the former reason": {marked(plan.MarkReasonHealing), plan.Action{Op: plan.Mark, Generation: 8},
			plan.VM{Marked: true, MarkReason: plan.MarkReasonHealing, MarkedAt: before, Generation: 8}},
		"a deletion of a member that was to be power-cycled": {marked(plan.MarkReasonPowerCycle), plan.Action{Op: plan.Mark, Generation: 8},
			plan.VM{Marked: true, MarkedAt: later, Generation: 8}},
		"a power cycle does not permit removal": {marked(plan.MarkReasonPowerCycle), plan.Action{Op: plan.Mark, Args: plan.MarkArgs{Reason: plan.MarkReasonScaleIn}, Generation: 6},
			plan.VM{Marked: true, MarkReason: plan.MarkReasonScaleIn, MarkedAt: later, Generation: 7}},
		"a mark that is removed":                {marked(plan.MarkReasonScaleIn), plan.Action{Op: plan.Unmark, Generation: 8}, plan.VM{Generation: 8}},
		"the change that a power cycle was for": {marked(plan.MarkReasonPowerCycle), plan.Action{Op: plan.Reconfigure}, plan.VM{Generation: 7}},
		"a hot change leaves the mark":          {marked(plan.MarkReasonPowerCycle), plan.Action{Op: plan.Reconfigure, Args: plan.ResizeArgs{Hot: true}}, marked(plan.MarkReasonPowerCycle)},
	} {
		if c.vm.Restamp(&c.a, later); c.vm.Marked != c.want.Marked || c.vm.MarkReason != c.want.MarkReason || !c.vm.MarkedAt.Equal(c.want.MarkedAt) || c.vm.Generation != c.want.Generation {
			t.Errorf("%s: %+v, want %+v", name, c.vm, c.want)
		}
	}
}

func TestAnUnmarkForgetsAShutdownThatIsOver(t *testing.T) {
	for by, over := range map[time.Duration]bool{0: false, 900 * time.Millisecond: false, -900 * time.Millisecond: false, 5 * time.Second: true, time.Minute: true} {
		vm := plan.VM{Marked: true, BootTime: now.Add(by), Shutdown: plan.Moment{At: now, Boot: now}}
		if vm.Restamp(&plan.Action{Op: plan.Unmark}, now); vm.Shutdown.At.IsZero() != over {
			t.Errorf("powered on since: %v; the request is %v", over, vm.Shutdown)
		}
	}
}
