package planner_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// withStandby is a settled group whose standby members have the ordinals after its members.
func withStandby(replicas, standby int32) plan.Observed {
	o := observed(replicas)
	o.Group.Spec.Standby = standby
	addMembers(&o, replicas+standby, func(m *plan.VM) {
		if m.Ordinal >= replicas {
			m.Standby, m.Power = true, plan.PoweredOff
		}
		m.Folder = "group-v7"
	})
	return o
}

// stepFor returns the step that a plan has for a member; empty if it has none.
func stepFor(r *plan.Result, vm string) plan.Op {
	for _, a := range r.Actions {
		if a.Key == vm {
			return a.Op
		}
	}
	return ""
}

func TestTheDisksOfAStandbyMemberGrow(t *testing.T) {
	t.Parallel()
	o := withStandby(2, 1)
	o.Group.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 20}}
	for i := range o.State.VMs {
		m := &o.State.VMs[i]
		m.Revision, m.Prepared = plan.Revision(&o.Group.Spec), plan.PreparationOf(&o.Group.Spec)
		m.Disks = given(plan.MemberDisk{Name: "data", At: "1000:1", UUID: "6000C29e", SizeGiB: 10, Shape: plan.DiskShape(&o.Group.Spec.Disks[0])})
	}
	if r := planner.Make(o); stepFor(&r, "web-1") != plan.SetDisks || stepFor(&r, "web-2") != plan.SetDisks {
		t.Errorf("not all of them grow: %+v", r.Actions)
	}
}

func TestAStandbyMemberThatArrivesIsWaitedFor(t *testing.T) {
	t.Parallel()
	o := withStandby(3, 1)
	drop(3)(&o)
	drop(0)(&o)
	o.Pending = map[string]plan.Pending{"web-3": {Op: plan.Clone, Ordinal: 3, Standby: true, State: plan.Running}}
	r := planner.Make(o)
	if len(r.Actions) > 0 || r.Status.CurrentReplicas != 2 {
		t.Errorf("%+v, %+v", r.Actions, r.Status)
	}
	o.Pending["web-3"] = plan.Pending{Op: plan.Clone, Ordinal: 3, Standby: true, State: plan.Running, Fault: plan.Fault{Reason: "Trouble", Message: "it failed"}}
	if r := planner.Make(o); stepFor(&r, "web-0") != plan.Clone || r.Actions[0].Standby() {
		t.Errorf("one that failed is waited for: %+v", r.Actions)
	}
}

func TestStandbyMembersThatCannotBePromotedAreNot(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(*plan.VM){
		"unreachable":   func(m *plan.VM) { m.Reachable, m.Unreachable = false, "disconnected" },
		"marked":        func(m *plan.VM) { m.Marked, m.MarkReason = true, plan.MarkReasonUpdate },
		"asks":          func(m *plan.VM) { m.Question = "Was it moved?" },
		"not prepared":  func(m *plan.VM) { m.Prepared = plan.Unprepared },
		"of another":    func(m *plan.VM) { m.Revision = "0123456789" },
		"of other size": func(m *plan.VM) { m.CPU = 9 },
	} {
		t.Run(what, func(t *testing.T) {
			o := withStandby(3, 1)
			drop(0)(&o)
			change(3, spoil)(&o)
			if r := planner.Make(o); stepFor(&r, "web-3") == plan.PowerOn {
				t.Errorf("web-3 is powered on although it is not fit: %+v", r.Actions)
			}
		})
	}
}

// Found by a random life of two replicas: one promoted a standby member instead of a member that the other was cloning, so the group had a
// member too many, and the standby member was destroyed. If the other replica's clone fails, this replica clones.
func TestNoStandbyMemberIsPromotedInsteadOfAMemberThatAnotherReplicaClones(t *testing.T) {
	t.Parallel()
	for state, clones := range map[plan.State]bool{plan.BackingOff: false, plan.Due: true} {
		o := withStandby(2, 1)
		drop(0)(&o)
		o.State.Gone = nil // it was never there
		o.Pending = map[string]plan.Pending{"web-0": {Op: plan.Clone, State: state, Fault: plan.Fault{Reason: plan.ReasonCloneRunning, Transient: true}}}
		r := planner.Make(o)
		if stepFor(&r, "web-2") != "" || (stepFor(&r, "web-0") == plan.Clone) != clones {
			t.Errorf("%s: steps %+v; want web-2 as it is, and a clone of web-0: %t", state, r.Actions, clones)
		}
		o.Pending["web-0"] = plan.Pending{Op: plan.Clone, State: state, Fault: plan.Fault{Reason: "NoDiskSpace"}}
		if r := planner.Make(o); stepFor(&r, "web-2") != plan.PowerOn {
			t.Errorf("%s, refused: steps %+v; want a promotion of web-2", state, r.Actions)
		}
	}
	o := withStandby(2, 1) // web-0 is there, and an operator removes web-1
	o.Pending = map[string]plan.Pending{"web-0": {Op: plan.Clone, State: plan.BackingOff, Fault: plan.Fault{Reason: plan.ReasonCloneRunning, Transient: true}}}
	drop(1)(&o)
	if r := planner.Make(o); stepFor(&r, "web-2") != plan.PowerOn {
		t.Errorf("the member is there, and another is gone: steps %+v; want a promotion of web-2", r.Actions)
	}
	o.Pending = map[string]plan.Pending{"web-7": {Op: plan.Clone, Ordinal: 7, State: plan.BackingOff, Fault: plan.Fault{Reason: plan.ReasonCloneRunning, Transient: true}}}
	if r := planner.Make(o); stepFor(&r, "web-2") != plan.PowerOn {
		t.Errorf("the clone is left from a larger spec: steps %+v; want a promotion of web-2", r.Actions)
	}
}

func TestSpecReplaceMakesAStandbyMemberAgain(t *testing.T) {
	t.Parallel()
	o := withStandby(3, 2)
	o.Group.Spec.Replace = []v1alpha1.Replacement{{Name: "web-4", MoRef: "vm-104"}}
	if r := planner.Make(o); len(r.Actions) != 1 || stepFor(&r, "web-4") != plan.Mark {
		t.Errorf("steps %+v, not a Mark of web-4, which spec.replace names", r.Actions)
	}
}

func TestAHiddenStandbyMemberKeepsItsOrdinalUntilItIsGone(t *testing.T) {
	t.Parallel()
	o := withStandby(3, 1)
	r := planner.Make(o)
	store(t, &o, &r)
	drop(3)(&o)
	gone := o.State.Gone
	o.State.Gone = nil
	if r := planner.Make(o); len(r.Actions) > 0 || r.Status.StandbyReplicas != 1 || r.Status.Standby[0].Reason != plan.ReasonMemberNotSeen {
		t.Errorf("hidden: %+v %+v", r.Actions, r.Status.Standby)
	}
	o.State.Gone = gone
	if r := planner.Make(o); stepFor(&r, "web-3") != plan.Clone || !r.Actions[0].Standby() || r.Status.StandbyReplicas != 0 || r.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("gone: %+v %+v", r.Actions, r.Status)
	}
}

func TestStandbyMembersWithoutAddressesAreReportedButNotWhileMembersGiveTheirsBack(t *testing.T) {
	t.Parallel()
	o := observed(3)
	o.Group.Spec.Standby = 2
	o.Group.Spec.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.13"}, PrefixLength: 24}}}
	addMembers(&o, 3)
	r := planner.Make(o)
	clones := slices.Collect(func(yield func(plan.Action) bool) {
		for _, a := range r.Actions {
			if a.Op == plan.Clone && !yield(a) {
				return
			}
		}
	})
	if len(clones) != 1 || r.Status.Phase != v1alpha1.PhaseError || !slices.ContainsFunc(r.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == plan.ReasonAddressesExhausted }) {
		t.Errorf("%+v, %s", clones, r.Status.LastMessage)
	}
	change(2, func(m *plan.VM) {
		m.Marked, m.MarkReason, m.MarkedAt = true, plan.MarkReasonReplace, now.Add(-time.Minute)
	})(&o)
	o.Group.Spec.Replace = []v1alpha1.Replacement{{Name: "web-2", MoRef: "vm-102"}}
	if r := planner.Make(o); r.Status.Phase == v1alpha1.PhaseError {
		t.Errorf("while a member goes: %s", r.Status.LastMessage)
	}
}

// The order of the verdicts must not be that of a map, since equal facts give equal answers. (Found by TestEveryObservation.)
func TestVerdictsOfStandbyMembersThatAreBeingClonedAreByOrdinal(t *testing.T) {
	t.Parallel()
	o := observed(0)
	o.Group.Spec.Standby = 9
	o.Pending = map[string]plan.Pending{}
	var want []string
	for i := range int32(9) {
		name := plan.MemberName("web", i)
		want = append(want, name)
		o.Pending[name] = plan.Pending{Op: plan.Clone, Ordinal: i, State: plan.Running, Standby: true}
	}
	r := planner.Make(o)
	var got []string
	for _, v := range r.Verdicts {
		got = append(got, v.VM)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// An operator may power it off again, or vCenter may no longer show it: then nobody would have the place of the member that was removed instead.
// (Found by the world, seed 1200363076.)
func TestNoMemberIsRemovedInsteadOfAStandbyMemberThatAnOperatorPoweredOnUntilItIsPromoted(t *testing.T) {
	t.Parallel()
	o := withStandby(2, 1)
	change(1, func(m *plan.VM) { m.Power = plan.PoweredOff })(&o)
	change(2, func(m *plan.VM) { m.Power, m.BootTime, m.Tools = plan.PoweredOn, now.Add(-time.Minute), true })(&o)
	r := planner.Make(o)
	if first, second := stepFor(&r, "web-1"), stepFor(&r, "web-2"); first != plan.PowerOn || second != plan.PowerOn {
		t.Errorf("before the promotion: %q of web-1 and %q of web-2; want PowerOn of both", first, second)
	}
	change(2, func(m *plan.VM) { m.Standby = false })(&o)
	r = planner.Make(o)
	if op := stepFor(&r, "web-1"); op != plan.Mark {
		t.Errorf("after the promotion: %q of web-1; want Mark: %s", op, r.Status.LastMessage)
	}
}
