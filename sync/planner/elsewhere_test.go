package planner_test

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestOnlyAMemberThatNeverRanIsReplacedWhenItsHostHasNoRoom(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*plan.Observed)
		goes   bool
	}{
		"it never ran":         {func(*plan.Observed) {}, true},
		"nothing is healed":    {func(o *plan.Observed) { o.Group.Spec.Healing.Action = v1alpha1.HealNone }, false},
		"it is on now":         {func(o *plan.Observed) { o.State.VMs[1].Power = plan.PoweredOn }, false},
		"it is another VM now": {func(o *plan.Observed) { o.State.VMs[1].MoRef = "vm-other" }, false},
		"its host is merely full": {func(o *plan.Observed) {
			p := o.Pending["web-1"]
			p.Fault.Reason = "ResourceLimit"
			o.Pending["web-1"] = p
		}, false},
		"no other can be cloned": {func(o *plan.Observed) { o.State.Template = plan.Template{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed(2)
			o.State.Folder = "group-1"
			o.State.VMs = []plan.VM{vm(&o, 0), vm(&o, 1)}
			o.State.VMs[1].Power = plan.PoweredOff
			o.Pending = map[string]plan.Pending{"web-1": {Op: plan.PowerOn, Ordinal: 1, MoRef: o.State.VMs[1].MoRef, State: plan.BackingOff,
				Fault: plan.Fault{Reason: plan.ReasonHostFull, NeedsOperator: true, Message: "no room"}}}
			c.change(&o)
			goes := false
			for _, a := range planner.Make(o).Actions {
				goes = goes || a.Key == "web-1" && marks(a, plan.MarkReasonHealing)
				if a.Op == plan.Mark && a.Key == "web-0" {
					t.Errorf("web-0, which is not unhealthy, is marked: %+v", a)
				}
			}
			if goes != c.goes {
				t.Errorf("it goes: %v", goes)
			}
		})
	}
}
