package planner_test

import (
	"slices"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// toBeCycled is a group whose members have more CPUs than the spec says, so each must be powered off for its new size. One member can be down
// at a time.
func toBeCycled(n int32) plan.Observed {
	o := observed(n)
	o.Group.Spec.Update.MaxUnavailable, o.Group.Spec.Update.MaxSurge = of(1), of(0)
	addMembers(&o, n, func(m *plan.VM) { m.Tools = true })
	o.Group.Spec.CPU = 1
	o.Now, o.Called = now, now
	return o
}

// down reports whether a plan powers a member off.
func down(r plan.Result) bool {
	return slices.ContainsFunc(r.Actions, func(a plan.Action) bool { return a.Op == plan.PowerOff || a.Op == plan.ShutdownGuest })
}

// marked marks a member as a replica of the server would have a minute ago.
func marked(o *plan.Observed, i int, why plan.MarkReason) {
	m := &o.State.VMs[i]
	m.Marked, m.MarkReason, m.MarkedAt = true, why, now.Add(-time.Minute)
}

// The server marks a member before it power-cycles the member, as before a removal. (Found by TestChaos, seed 26: two replicas of the server
// that knew different specs each took a member without a mark down for its size.)
func TestAPowerCycledMemberIsMarkedFirstAndItsResizeRemovesTheMark(t *testing.T) {
	o := toBeCycled(3)
	for _, op := range []plan.Op{plan.Mark, plan.ShutdownGuest, plan.Reconfigure, plan.PowerOn} {
		r := planner.Make(o)
		store(t, &o, &r)
		if len(r.Actions) != 1 || r.Actions[0].Op != op || r.Actions[0].Marked != (op == plan.ShutdownGuest) {
			t.Fatalf("not just %s: %+v", op, r.Actions)
		}
		if op == plan.Mark && plan.ArgsOf[plan.MarkArgs](r.Actions[0].Args).Reason != plan.MarkReasonPowerCycle {
			t.Errorf("the mark's reason is %q", plan.ArgsOf[plan.MarkArgs](r.Actions[0].Args).Reason)
		}
		plan.Apply(&o, r.Actions[0])
	}
	for _, m := range o.State.VMs {
		if m.Marked || m.MarkReason != "" {
			t.Errorf("%s is still marked", m.Name)
		}
	}
}

func TestOnlyAsManyAreMarkedForTheirSizeAsCanBeDown(t *testing.T) {
	o := toBeCycled(4)
	marked(&o, 1, plan.MarkReasonPowerCycle)
	marked(&o, 3, plan.MarkReasonPowerCycle)
	r := planner.Make(o)
	if len(r.Actions) != 1 || r.Actions[0].Op != plan.Unmark {
		t.Errorf("two are marked, and one can be down; it does %+v", r.Actions)
	}
	o.Group.Spec.Update.MaxUnavailable = of(2)
	if r := planner.Make(o); len(r.Actions) != 1 || r.Actions[0].Op != plan.Unmark {
		t.Errorf("two can be down, and no member serves with its new size; it does %+v", r.Actions)
	}
	first := &o.State.VMs[0]
	first.CPU, first.BootTime = 1, now
	if r := planner.Make(o); !r.Wants("web-1", plan.ShutdownGuest) || !r.Wants("web-3", plan.ShutdownGuest) || len(r.Actions) != 2 {
		t.Errorf("two can be down, and one serves with its new size; it does %+v", r.Actions)
	}
}

func TestAMemberMarkedForItsSizeIsDrainedAndSaysSo(t *testing.T) {
	o := toBeCycled(2)
	o.Group.Spec.Service = &v1alpha1.Service{DrainSeconds: 30}
	marked(&o, 1, plan.MarkReasonPowerCycle)
	o.State.VMs[1].MarkedAt = now.Add(-10 * time.Second)
	r := planner.Make(o)
	if down(r) {
		t.Errorf("it does %+v", r.Actions)
	}
	if m := r.Status.Members[1]; m.Reason != plan.ReasonPowerCycling || !m.Ready {
		t.Errorf("the status says %+v", m)
	}
	o.Now = now.Add(21 * time.Second) // the mark's time is cut to whole seconds
	if r := planner.Make(o); !r.Wants("web-1", plan.ShutdownGuest) {
		t.Errorf("drained, it does %+v", r.Actions)
	}
}

func TestUnreadyMembersGoBeforeAServingOneMarkedForItsSize(t *testing.T) {
	o := toBeCycled(3)
	*o.Group.Spec.Replicas = 2
	o.Group.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
	o.State.VMs[0].Tools = false
	marked(&o, 2, plan.MarkReasonPowerCycle)
	for _, a := range planner.Make(o).Actions {
		if marks(a, plan.MarkReasonScaleIn) && a.Key != "web-0" {
			t.Errorf("%s goes, and web-0 is not ready", a.Key)
		}
	}
}

// While the Mark of another member fails, the marked member keeps its mark.
func TestAMemberMarkedForItsSizeStaysMarkedWhileAnotherMarkFails(t *testing.T) {
	o := toBeCycled(3)
	marked(&o, 2, plan.MarkReasonPowerCycle)
	o.State.VMs[2].Generation = o.Group.Generation
	o.Pending = map[string]plan.Pending{"web-1": {Op: plan.Mark, MarkReason: plan.MarkReasonPowerCycle, Ordinal: 1, MoRef: o.State.VMs[1].MoRef,
		State: plan.BackingOff, Fault: plan.Fault{Reason: "MissingPrivilege", Message: "it isn't allowed", NeedsOperator: true}}}
	if r := planner.Make(o); !r.Wants("web-2", plan.ShutdownGuest) || r.Wants("web-2", plan.Unmark) {
		t.Errorf("it does %+v", r.Actions)
	}
}

// A guest that was asked to halt can't be stopped from halting. So its member keeps its mark, and is not powered off while too few members
// serve.
func TestAMemberHaltingForItsSizeStaysMarkedAndOnWhileTooFewServe(t *testing.T) {
	o := toBeCycled(3)
	marked(&o, 2, plan.MarkReasonPowerCycle)
	m := &o.State.VMs[2]
	m.BootTime = now.Add(-time.Hour)
	m.Shutdown = plan.Moment{At: now.Add(-70 * time.Second), Boot: m.BootTime} // its time is over
	if r := planner.Make(o); !r.Wants("web-2", plan.PowerOff) {
		t.Fatalf("enough serve, and it does %+v", r.Actions)
	}
	o.State.VMs[0].Power = plan.PoweredOff
	if r := planner.Make(o); r.Wants("web-2", plan.PowerOff) || r.Wants("web-2", plan.Unmark) {
		t.Errorf("too few serve, and it does %+v", r.Actions)
	}
}
