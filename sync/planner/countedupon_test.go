package planner_test

import (
	"slices"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// The stream may not have shown yet that one of those that stay is marked or down. So the step that takes a member down names
// them, and how many of them must be unchanged. (Found by the model in test/world, seeds 42134 and 41782.)
func TestAStepThatTakesAMemberDownNamesTheMembersItCountsOn(t *testing.T) {
	o := observed(3)
	o.Group.Spec.Update.MaxUnavailable = of(1)
	addMembers(&o, 5, func(m *plan.VM) { m.Boot, m.ChangeVersion = now.Add(-time.Hour), "v"+m.MoRef })
	vms := o.State.VMs
	vms[1].Power, vms[1].Boot = plan.PoweredOff, time.Time{}
	vms[3].Marked, vms[4].Marked = true, true
	find := func(r plan.Result, op plan.Op) plan.Action {
		at := slices.IndexFunc(r.Actions, func(a plan.Action) bool { return a.Op == op })
		if at < 0 {
			t.Fatalf("no %s: %+v", op, r.Actions)
		}
		return r.Actions[at]
	}
	a := find(planner.Make(o), plan.PowerOff)
	want := []plan.Other{{MoRef: vms[0].MoRef, ChangeVersion: vms[0].ChangeVersion, Boot: vms[0].Boot},
		{MoRef: vms[2].MoRef, ChangeVersion: vms[2].ChangeVersion, Boot: vms[2].Boot}}
	if !slices.Equal(a.Others, want) || a.Least != 2 {
		t.Errorf("one is off and two go: %s counts on %d of %+v", a.VM, a.Least, a.Others)
	}

	vms[3].Power, vms[3].Boot = plan.PoweredOff, time.Time{}
	if a = find(planner.Make(o), plan.Destroy); a.Others != nil || a.Least != 0 {
		t.Errorf("one that is already off: %+v", a)
	}

	o.Group.Spec.CPU++
	o.Group.Spec.Update.Resize = v1alpha1.ResizeInPlace
	vms = vms[:3]
	vms[1].Power, vms[1].Boot = plan.PoweredOn, now.Add(-time.Minute)
	vms[2].Marked, vms[2].Why = true, plan.WhyPowerCycle
	o.State.VMs = vms
	if a = find(planner.Make(o), plan.PowerOff); a.VM != "web-2" || a.Least != 2 || len(a.Others) != 2 {
		t.Errorf("for a power cycle %s counts on %d of %+v", a.VM, a.Least, a.Others)
	}

	remove(&o)
	for i := range vms {
		vms[i].Marked, vms[i].Generation = true, o.Group.Generation
	}
	if a = find(planner.Make(o), plan.PowerOff); a.Others != nil {
		t.Errorf("the group is deleted: %+v", a)
	}
}
