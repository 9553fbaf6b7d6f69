package planner_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// closed has update windows that are closed at 12:00 UTC: the next one opens at 22:00.
func closed(o *plan.Observed) {
	o.Group.Spec.Update.Windows = []v1alpha1.Window{{Start: "22:00", DurationSeconds: 3600}}
}

func TestHealingAndScalingDoNotWaitForAWindow(t *testing.T) {
	t.Parallel()
	o := observed(4)
	addMembers(&o, 5)
	closed(&o)
	if r := planner.Make(o); !r.Wants("web-4", plan.Mark) {
		t.Errorf("scale-in: %+v", r.Actions)
	}
	o = observed(4)
	addMembers(&o, 4)
	closed(&o)
	o.Group.Spec.Healing.Action, o.Group.Spec.Readiness.Check = v1alpha1.HealReplace, v1alpha1.ReadyToolsRunning
	for i := range o.State.VMs {
		o.State.VMs[i].Tools = i != 2
	}
	o.Group.Status.Members = []v1alpha1.Member{{MoRef: "vm-102", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	if r := planner.Make(o); !r.Wants("web-2", plan.Mark) {
		t.Errorf("healing: %+v", r.Actions)
	}
}

// Whether the guest of an adopted VM ever reports anything isn't known until it is powered on again.
func TestAnAdoptedMemberThatReportsNothingIsHealedOnlyAfterItsNextPowerOn(t *testing.T) {
	t.Parallel()
	for what, heals := range map[string]bool{"it was on when it was adopted": false, "it was powered on since": true} {
		o := observed(3)
		addMembers(&o, 3)
		o.Group.Spec.Healing.Action, o.Group.Spec.Readiness.Check = v1alpha1.HealReplace, v1alpha1.ReadyToolsRunning
		for i := range o.State.VMs {
			o.State.VMs[i].Tools = i != 2
		}
		m := &o.State.VMs[2]
		m.Former.Name, m.Created, m.BootTime = "old", now.Add(-2*time.Hour), now.Add(-3*time.Hour)
		if heals {
			m.BootTime = now.Add(-time.Hour)
		}
		o.Group.Status.Members = []v1alpha1.Member{{MoRef: "vm-102", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
		if r := planner.Make(o); r.Wants("web-2", plan.Mark) != heals {
			t.Errorf("%s: %+v", what, r.Actions)
		}
	}
}

// While some members are replaced for their age, others become too old. So the number of updated members need not grow, and the update hasn't
// stopped.
func TestARefreshThatNeverEndsMakesProgress(t *testing.T) {
	t.Parallel()
	o := observed(4)
	o.Group.Spec.Update = v1alpha1.Update{MaxAgeSeconds: in(3600), MaxSurge: of(0), MaxUnavailable: of(1), MinReadySeconds: 600}
	addMembers(&o, 4)
	for i := range o.State.VMs {
		o.State.VMs[i].Created = now.Add(-time.Duration(i) * 15 * time.Minute)
	}
	replaced := 0
	for range 2000 {
		r := planner.Make(o)
		store(t, &o, &r)
		if r.Status.Phase == v1alpha1.PhaseError {
			t.Fatalf("after %s: %s", o.Now.Sub(now), r.Status.LastMessage)
		}
		for _, a := range r.Actions {
			if plan.Apply(&o, a); a.Op == plan.Destroy {
				replaced++
			}
		}
		o.Now = o.Now.Add(max(time.Second, min(r.Wake, time.Minute)))
		o.Called = o.Now
	}
	if replaced < 20 {
		t.Errorf("%d were replaced in %s", replaced, o.Now.Sub(now))
	}
}

// Outside the windows, no update takes down a ready member without a mark. Standby members, which have no clients, are updated at any time.
func TestNoUpdateBeginsOutsideTheWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		closed(&o)
		for _, a := range planner.Make(o).Actions {
			m := find(&o, a.MoRef)
			if marks(a, plan.MarkReasonUpdate, plan.MarkReasonResize, plan.MarkReasonPowerCycle) && !m.Marked &&
				!strings.HasPrefix(m.Prepared, plan.Unprepared) && !m.Standby {
				t.Fatalf("%s of %s outside the windows: %s", a.Op, a.Key, a.Reason)
			}
		}
	})
}
