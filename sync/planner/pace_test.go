package planner_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// updateTakes returns how long an update takes if each step takes a second, all planned steps begin at once, and a guest reports an address
// after a minute.
func updateTakes(t *testing.T, replicas int32, change func(*v1alpha1.VmGroupSpec)) time.Duration {
	t.Helper()
	const boot = time.Minute
	o := observed(replicas)
	o.Group.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
	up := func(m *plan.VM) {
		m.Tools, m.Reported, m.IPs = true, true, []string{fmt.Sprintf("192.0.2.%d", m.Ordinal)}
	}
	addMembers(&o, replicas, func(m *plan.VM) {
		m.Created, m.BootTime = now.Add(-24*time.Hour), now.Add(-24*time.Hour)
		up(m)
	})
	r := planner.Make(o)
	store(t, &o, &r)
	o.Group.Generation++
	change(&o.Group.Spec)
	begun := o.Now
	for o.Now.Sub(begun) < 24*time.Hour {
		o.Called = o.Now
		r := planner.Make(o)
		store(t, &o, &r)
		if r.Status.Phase == v1alpha1.PhaseRunning {
			return o.Now.Sub(begun)
		}
		for _, a := range r.Actions {
			plan.Apply(&o, a)
			if i := slices.IndexFunc(o.State.VMs, func(m plan.VM) bool { return m.MoRef == a.MoRef }); i >= 0 && a.Op == plan.PowerOn {
				m := &o.State.VMs[i]
				m.Tools, m.Reported, m.IPs = false, false, nil
			}
		}
		o.Now = o.Now.Add(time.Second)
		for i := range o.State.VMs {
			if m := &o.State.VMs[i]; m.Power == plan.PoweredOn && len(m.IPs) == 0 && !o.Now.Before(m.BootTime.Add(boot)) {
				up(m)
			}
		}
	}
	t.Fatalf("the update never ends: %s", r.Status.LastMessage)
	return 0
}

// An update waits once for its first new members to be ready. Then each wave of booting guests replaces as many members as maxSurge and
// maxUnavailable allow. Before updates waited for their first members, each update with maxUnavailable above 0 took a minute less.
func TestAnUpdateTakesOneBootMoreThanItsLimitsAllow(t *testing.T) {
	thin.NotShort(t)
	for _, c := range []struct {
		replicas, surge, unavailable int32
		replace, resize              int // minutes: boots, one after another
	}{
		{1, 1, 0, 1, 2}, {1, 0, 1, 1, 1}, {3, 1, 0, 3, 4}, {4, 1, 1, 3, 4}, {8, 0, 1, 8, 8}, {8, 0, 4, 3, 3}, {8, 2, 0, 4, 5},
		{8, 2, 2, 3, 5}, {20, 5, 5, 3, 5}, {50, 13, 12, 3, 6}, {100, 25, 25, 3, 5},
	} {
		for how, want := range map[string]int{"replaced": c.replace, "resized": c.resize} {
			took := updateTakes(t, c.replicas, func(s *v1alpha1.VmGroupSpec) {
				s.Update.MaxSurge, s.Update.MaxUnavailable = of(c.surge), of(c.unavailable)
				if s.CPU--; how == "replaced" {
					s.CPU, s.Template = s.CPU+1, "debian"
				}
			})
			if boots := int(took.Minutes()); boots != want || took > time.Duration(want)*(time.Minute+5*time.Second) {
				t.Errorf("%d members %s with maxSurge %d and maxUnavailable %d: %s, want %d boots and 5 s for each", c.replicas, how, c.surge, c.unavailable, took, want)
			}
		}
	}
}
