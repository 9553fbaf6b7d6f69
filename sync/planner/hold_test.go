package planner_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// annotate sets or removes an annotation that holds a member.
func annotate(name, value string) func(*plan.Observed) {
	return func(o *plan.Observed) {
		if o.Group.Annotations == nil {
			o.Group.Annotations = map[string]string{}
		}
		if o.Group.Annotations[v1alpha1.AnnotationHold+name] = value; value == "" {
			delete(o.Group.Annotations, v1alpha1.AnnotationHold+name)
		}
	}
}

// takesDown reports whether a plan takes a VM down.
func takesDown(r *plan.Result, vm string) bool {
	return r.Wants(vm, plan.PowerOff) || r.Wants(vm, plan.ShutdownGuest) || r.Wants(vm, plan.Destroy)
}

// heldMember is a group of two: web-1 was marked a minute ago, and an annotation holds it for at most 600 s.
func heldMember(change func(*plan.Observed)) plan.Observed {
	o := observed(2)
	addMembers(&o, 2)
	o.Group.Spec.Deletion.HoldTimeoutSeconds = 600
	change(&o)
	if !o.Finalizing {
		marked(&o, 1, plan.MarkReasonScaleIn)
	}
	annotate("drain", "web-1/vm-101")(&o)
	return o
}

var heldCases = map[string]func(*plan.Observed){
	"scale-in":      func(o *plan.Observed) { *o.Group.Spec.Replicas = 1 },
	"a roll":        func(o *plan.Observed) { o.Group.Spec.Template, o.Group.Spec.Update.MaxUnavailable = "debian", of(1) },
	"a power cycle": func(o *plan.Observed) { o.Group.Spec.Memory, o.Group.Spec.Update.MaxUnavailable = 2, of(1) },
	"spec.replace": func(o *plan.Observed) {
		o.Group.Spec.Replace, o.Group.Spec.Update.MaxUnavailable = []v1alpha1.Replacement{{Name: "web-1", MoRef: "vm-101"}}, of(1)
	},
	"age": func(o *plan.Observed) {
		o.Group.Spec.Update = v1alpha1.Update{MaxAgeSeconds: in(3600), MaxUnavailable: of(1)}
		each(func(m *plan.VM) { m.Created = now.Add(-time.Hour) })(o)
	},
	"a deleted group": func(o *plan.Observed) { remove(o); o.FinalizingSince = now; marked(o, 0, "") },
	"healing": func(o *plan.Observed) {
		o.Group.Spec.Healing.Action, o.Group.Spec.Readiness.Check = v1alpha1.HealReplace, v1alpha1.ReadyToolsRunning
		o.State.VMs[0].Tools = true
	},
}

func TestAHeldMemberIsTakenDownWhenItIsReleasedOrItsTimeIsOver(t *testing.T) {
	t.Parallel()
	for name, change := range heldCases {
		o := heldMember(change)
		if name == "a power cycle" {
			o.State.VMs[1].MarkReason = plan.MarkReasonPowerCycle
		}
		if name == "healing" {
			o.State.VMs[1].MarkReason = plan.MarkReasonHealing
		}
		free := o
		free.Group = o.Group.DeepCopy()
		annotate("drain", "")(&free)
		if r := planner.Make(free); !takesDown(&r, "web-1") {
			t.Errorf("%s: not taken down although nothing holds it: %+v", name, r.Actions)
		}
		r := planner.Make(o)
		began := now.Add(-time.Minute)
		if o.Finalizing {
			began = now
		}
		until := began.Add(601 * time.Second)
		if m := r.Status.Members[1]; takesDown(&r, "web-1") || !m.HeldUntil.Time.Equal(until) || r.Wake == 0 || r.Wake > until.Sub(now) {
			t.Errorf("%s: held until %s, and it wakes in %s: %+v", name, m.HeldUntil, r.Wake, r.Actions)
		}
		if !strings.Contains(r.Status.LastMessage, "waiting for the annotations that hold 1 member") {
			t.Errorf("%s: %s", name, r.Status.LastMessage)
		}
		if events := asJSON(t, r.Events); len(o.Group.Status.Conditions) == 0 && strings.Contains(events, "MemberHeld") {
			t.Errorf("%s: %s", name, events)
		}
		store(t, &o, &r)
		o.Now = until
		if o.Called = until; name != "age" { // the other members are too old by then
			if r = planner.Make(o); !takesDown(&r, "web-1") || !r.Status.Members[1].HeldUntil.IsZero() {
				t.Errorf("%s: its time is over: %+v", name, r.Actions)
			}
			if events := asJSON(t, r.Events); !strings.Contains(events, "HoldTimedOut") {
				t.Errorf("%s: no Event says that a hold took too long: %s", name, events)
			}
		}
	}
}

func TestAHoldConcernsNoVMThatIsOffAndNoneThatIsRetained(t *testing.T) {
	t.Parallel()
	o := heldMember(heldCases["scale-in"])
	o.State.VMs[1].Power = plan.PoweredOff
	if r := planner.Make(o); !r.Wants("web-1", plan.Destroy) || !r.Status.Members[1].HeldUntil.IsZero() {
		t.Errorf("off: %+v", r.Actions)
	}
	o = heldMember(heldCases["a deleted group"])
	o.Group.Spec.Deletion.Policy = v1alpha1.DeletionRetain
	mark := &o.State.VMs[0] // that of the deletion
	mark.Marked, mark.MarkedAt, mark.Generation = true, o.Now, o.Group.Generation
	if r := planner.Make(o); !r.Wants("web-1", plan.Release) {
		t.Errorf("retained: %+v", r.Actions)
	}
}

// A replica that has had no hook call since the mark may not know of the annotation.
func TestAReplicaTakesNoneDownBeforeItWasCalledAfterTheMark(t *testing.T) {
	t.Parallel()
	o := heldMember(heldCases["scale-in"])
	o.Group.Annotations = nil
	o.Called = now.Add(-61 * time.Second)
	if r := planner.Make(o); takesDown(&r, "web-1") || r.Wake == 0 {
		t.Errorf("taken down by a replica that may not know of a hold: %+v", r.Actions)
	}
	o.Called = now.Add(-time.Minute)
	if r := planner.Make(o); !takesDown(&r, "web-1") {
		t.Errorf("called after the mark: %+v", r.Actions)
	}
}

func TestAnAnnotationThatHoldsNoMemberIsReported(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"":                  "must name a member and its VM, such as web-0/vm-42",
		"true":              "must name a member and its VM",
		"web-1":             "must name a member and its VM",
		"web-1/":            "must name a member and its VM",
		"web-1/vm-101/more": "must name a member and its VM",
		"other-1/vm-101":    "must name a member and its VM",
		"web-0/vm-101":      "vm-101 is not the VM of web-0",
		"web-1/vm-7":        "vm-7 is not the VM of web-1",
	} {
		o := heldMember(heldCases["scale-in"])
		o.Group.Annotations = map[string]string{v1alpha1.AnnotationHold + "drain": value, v1alpha1.AnnotationAbandon: "x"}
		first := observed(2)
		o.Group.Status.Conditions = planner.Make(first).Status.Conditions
		r := planner.Make(o)
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionHoldIgnored)
		if c == nil || !strings.HasPrefix(c.Message, "drain: "+want) || !takesDown(&r, "web-1") || r.Status.Phase == v1alpha1.PhaseError {
			t.Errorf("%q: %+v, and %+v", value, c, r.Actions)
		}
		if events := asJSON(t, r.Events); !strings.Contains(events, v1alpha1.ConditionHoldIgnored) {
			t.Errorf("%q: no Event says so: %s", value, events)
		}
	}
	o := heldMember(heldCases["scale-in"])
	o.Group.Spec.Deletion.HoldTimeoutSeconds = 0
	r := planner.Make(o)
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionHoldIgnored); c == nil || c.Message != "drain: spec.deletion.holdTimeoutSeconds is not set" || !takesDown(&r, "web-1") {
		t.Errorf("without a time-out: %+v, and %+v", c, r.Actions)
	}
}

// After a hold has timed out in a deletion, its annotation names a VM that was removed. That is not reported.
func TestAnAnnotationOfAMemberThatADeletionRemovedIsNotReported(t *testing.T) {
	t.Parallel()
	o := observed(2)
	addMembers(&o, 2)
	o.Group.Spec.Deletion.HoldTimeoutSeconds = 60
	annotate("backup", "web-0/"+o.State.VMs[0].MoRef)(&o)
	annotate("wrong", "web-1/vm-7")(&o)
	r := planner.Make(o)
	store(t, &o, &r)
	remove(&o)
	o.Now = o.Now.Add(2 * time.Minute)
	o.Called, o.State.VMs = o.Now, o.State.VMs[1:]
	for range 2 { // as the stored status still has it, and when it has not
		r = planner.Make(o)
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionHoldIgnored)
		if c == nil || c.Message != "wrong: vm-7 is not the VM of web-1" {
			t.Errorf("HoldIgnored is %+v, and doesn't say that vm-7 is not the VM of web-1", c)
		}
		store(t, &o, &r)
	}
}

// A hold delays an update for longer than progressDeadlineSeconds: the deadline counts again from the end of the hold.
func TestAnUpdateDoesNotStopBecauseAMemberWasHeld(t *testing.T) {
	t.Parallel()
	o := heldMember(func(o *plan.Observed) {
		o.Group.Spec.Deletion.HoldTimeoutSeconds = 36000
		o.Group.Spec.Update = v1alpha1.Update{MaxSurge: of(0), MaxUnavailable: of(1), MinReadySeconds: 20}
		o.Group.Spec.Template = "debian"
	})
	for step := range 4000 {
		if step == 3600 {
			o.Group = o.Group.DeepCopy()
			annotate("drain", "")(&o)
		}
		o.Now = o.Now.Add(time.Second)
		o.Called = o.Now
		r := planner.Make(o)
		store(t, &o, &r)
		if r.Status.Phase == v1alpha1.PhaseError {
			t.Fatalf("after %d s: %s", step, r.Status.LastMessage)
		}
		for _, a := range r.Actions {
			plan.Apply(&o, a)
		}
	}
	if o.Group.Status.UpdatedReplicas != 2 || o.Group.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("it ended as %s", asJSON(t, o.Group.Status))
	}
}

// While a member of a deleted group is held, the group's children stay. Once they are deleted, they aren't created again.
func TestTheChildrenOfADeletedGroupStayWhileAMemberIsHeld(t *testing.T) {
	t.Parallel()
	o := served(2, v1alpha1.Service{Ports: web})
	r := planner.Make(o)
	apply(t, &o, &r)
	remove(&o)
	o.FinalizingSince = now
	marked(&o, 0, "")
	o.Group.Spec.Deletion.HoldTimeoutSeconds = 600
	annotate("drain", "web-1/"+o.State.VMs[1].MoRef)(&o)
	if r = planner.Make(o); len(r.Children) == 0 || r.Finalized || takesDown(&r, "web-1") {
		t.Errorf("held: %d children, %+v", len(r.Children), r.Actions)
	}
	for key, e := range endpointsOf(r.Children) {
		if !e {
			t.Errorf("%s is not terminating", key)
		}
	}
	o.Children = nil
	if r = planner.Make(o); len(r.Children) > 0 {
		t.Error("the children come back")
	}
}

// endpointsOf returns which endpoints are terminating.
func endpointsOf(children []plan.Child) map[string]bool {
	all := map[string]bool{}
	for i := range children {
		if fields, is := children[i].Fields.(plan.EndpointSliceFields); is {
			for name, e := range plan.EndpointsSeen(fields.Endpoints, "") {
				all[name] = e.Terminating
			}
		}
	}
	return all
}

// In any state of any group, a marked member that runs and that an annotation holds is not taken down before its hold times out.
func TestNoHeldMemberIsTakenDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		o.Group.Spec.Deletion.HoldTimeoutSeconds, o.Group.Spec.Deletion.Policy = 3600, ""
		held := map[string]bool{}
		for _, m := range o.State.VMs {
			if m.Quarantined.IsZero() && m.Power == plan.PoweredOn && !halting(&o, m) && (o.Finalizing || !m.Marked || !m.MarkedAt.IsZero()) {
				annotate(m.MoRef, plan.MemberName("web", m.Ordinal)+"/"+m.MoRef)(&o)
				held[m.MoRef] = true
			}
		}
		before := planner.Make(o)
		for _, a := range before.Actions {
			if held[a.MoRef] && (a.Op == plan.ShutdownGuest || a.Op == plan.PowerOff || a.Op == plan.Destroy || a.Op == plan.Quarantine) {
				t.Fatalf("%s of %s, which is held: %s", a.Op, a.Key, a.Reason)
			}
		}
		if before.Finalized && len(held) > 0 {
			t.Fatal("finalized with a held member")
		}
	})
}
