package planner_test

import (
	"testing"

	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// Two replicas mark different members at once, and each sees the other's mark before its own has returned. If both took
// down the other's, two would be down where one can be. (Found by the model in test/world, seed 102521.)
func TestNoServingMemberIsTakenDownWhileAMarkIsInProgress(t *testing.T) {
	for _, why := range []plan.MarkReason{plan.MarkReasonUpdate, plan.MarkReasonPowerCycle} {
		o := observed(4)
		addMembers(&o, 4, func(m *plan.VM) {
			if why == plan.MarkReasonPowerCycle {
				m.CPU++
			} else {
				m.Revision = "0123456789"
			}
		})
		theirs, ours := &o.State.VMs[3], &o.State.VMs[2]
		theirs.Marked, theirs.MarkReason = true, why
		takesDown := func() bool {
			r := planner.Make(o)
			return r.Wants(theirs.Name, plan.PowerOff) || r.Wants(theirs.Name, plan.ShutdownGuest)
		}
		if !takesDown() {
			t.Fatalf("%s: the marked member is not taken down: the test proves nothing", why)
		}
		o.Pending = map[string]plan.Pending{ours.Name: {Op: plan.Mark, Ordinal: ours.Ordinal, MoRef: ours.MoRef, State: plan.Running, MarkReason: why}}
		if takesDown() {
			t.Errorf("%s: a member that serves is taken down by another replica's mark, while that of ours is running", why)
		}
		theirs.Power = plan.PoweredOff // it is carried out
		if r := planner.Make(o); len(r.Actions) == 0 {
			t.Errorf("%s: what is down already waits", why)
		}
	}
}

// A mark makes a member's endpoints terminating. After an edit of the spec, the server may withdraw a mark that it has written or is writing.
// Until then it marks no other member that the group needs. (Found by TestChaos, seed 910043: the edit came while the mark of a power cycle was
// being written, and the update marked an extra member.)
func TestNoMoreMembersHaveMarksThanCanGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(1, 5).Draw(t, "replicas")
		o := observed(replicas)
		addMembers(&o, replicas+rapid.Int32Range(0, 2).Draw(t, "extra"), func(m *plan.VM) { m.Tools = true })
		spec := &o.Group.Spec
		spec.Deletion.ShutdownTimeoutSeconds = new(int32)
		if rapid.Bool().Draw(t, "without surge") {
			spec.Update.MaxUnavailable, spec.Update.MaxSurge = of(1), of(0)
		}
		spec.Template = rapid.SampledFrom([]string{spec.Template, "debian"}).Draw(t, "template")
		spec.CPU = rapid.Int32Range(1, 3).Draw(t, "cpu")
		spec.ScaleIn.Protected = rapid.SampledFrom([][]string{nil, {"web-0"}, {"web-0", "web-1"}}).Draw(t, "protected")
		spec.Update.Resize = rapid.SampledFrom([]v1alpha1.ResizeWay{"", v1alpha1.ResizeReplace}).Draw(t, "resize")
		if rapid.IntRange(0, 3).Draw(t, "canary") == 0 {
			spec.Update.Canary = of(1)
		}
		o.Pending = map[string]plan.Pending{}
		terminating := map[string]bool{}
		for range rapid.IntRange(1, 2).Draw(t, "marks") {
			m := &o.State.VMs[rapid.IntRange(0, len(o.State.VMs)-1).Draw(t, "marked")]
			why := rapid.SampledFrom([]plan.MarkReason{plan.MarkReasonPowerCycle, plan.MarkReasonPowerCycle, plan.MarkReasonUpdate, plan.MarkReasonScaleIn}).Draw(t, "why")
			if terminating[m.MoRef] = true; rapid.Bool().Draw(t, "is being written") {
				o.Pending[m.Name] = plan.Pending{Op: plan.Mark, Ordinal: m.Ordinal, MoRef: m.MoRef, State: plan.Running, MarkReason: why}
			} else {
				m.Marked, m.MarkReason, m.MarkedAt = true, why, now
			}
		}
		before := servingBut(&o, nil, terminating)
		for _, a := range planner.Make(o).Actions {
			terminating[a.MoRef] = terminating[a.MoRef] || a.Op == plan.Mark
		}
		if _, least := limits(&o); servingBut(&o, nil, terminating) < min(before, least) {
			t.Fatalf("of %d members that serve and have no mark, %d are left; %d are promised: %+v", before, servingBut(&o, nil, terminating), least, planner.Make(o).Actions)
		}
	})
}
