package planner

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// remove checks each condition of its table itself, also those that its callers have already checked.
func TestAVMCanGoOnlyIfEveryConditionOfItsRemovalReasonIsMet(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fresh := func() (*decision, *member) {
		o := &plan.Observed{Group: &v1alpha1.VmGroup{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}}, Now: now, Pending: map[string]plan.Pending{}}
		o.Group.Spec.Service = &v1alpha1.Service{}
		f := &facts{Observed: o, vCenterKnown: true, policy: Policy{Quarantine: time.Hour}}
		d := &decision{facts: f, sets: &sets{facts: f}}
		d.sets.members = []member{{VM: plan.VM{MoRef: "vm-7", Reachable: true, Marked: true, Generation: 2, Power: plan.PoweredOff, Quarantined: now.Add(-2 * time.Hour)},
			name: "web-0", fate: withdrawn, ready: true}}
		return d, &d.sets.members[0]
	}
	finalizing := func(d *decision) { d.facts.Finalizing = true }
	drain := func(d *decision, m *member) {
		d.facts.Group.Spec.Service.DrainSeconds, m.MarkedAt, d.facts.Group.DeletionTimestamp = 60, now, &metav1.Time{Time: now}
	}
	none := func(*decision) {}
	another := func(d *decision) { d.sets.members[0].fate, d.sets.members[0].duplicate = remains, true }
	for _, c := range []struct {
		on       removal
		prepare  func(*decision)
		breaking map[string]func(*decision, *member)
	}{
		{chosen, none, map[string]func(*decision, *member){
			"it is not selected":                 func(_ *decision, m *member) { m.fate = remains },
			"it is not marked":                   func(_ *decision, m *member) { m.Marked = false },
			"it is marked for a power cycle":     func(_ *decision, m *member) { m.MarkReason = plan.MarkReasonPowerCycle },
			"another member's mark is withdrawn": func(d *decision, _ *member) { d.withdrawing = true },
			"it is being drained":                drain,
			"a mark is being written": func(d *decision, _ *member) {
				d.facts.Pending["web-1"] = plan.Pending{Op: plan.Mark, State: plan.Running}
			},
		}},
		{chosen, another, map[string]func(*decision, *member){
			"it is the member": func(_ *decision, m *member) { m.duplicate = false },
			"it is not marked": func(_ *decision, m *member) { m.Marked = false },
			"it serves, and the member of its ordinal does not yet": func(d *decision, m *member) {
				m.Power, m.Tools, d.slack = plan.PoweredOn, true, -1
				d.sets.members = append(d.sets.members, member{VM: plan.VM{Power: plan.PoweredOn}})
			},
			"an annotation holds it": func(d *decision, m *member) {
				d.facts.Group.Annotations = map[string]string{v1alpha1.AnnotationHold + "me": "web-0/vm-7"}
				d.facts.Group.Spec.Deletion.HoldTimeoutSeconds, m.MarkedAt, m.heldUntil = 60, now, now.Add(time.Minute)
			},
		}},
		{expired, none, map[string]func(*decision, *member){
			"its time is not over":      func(_ *decision, m *member) { m.Quarantined = now },
			"an operator powered it on": func(_ *decision, m *member) { m.Power = plan.PoweredOn },
			"another VM is the member":  func(_ *decision, m *member) { m.MarkReason = plan.MarkReasonDuplicate },
		}},
		{duplicate, another, map[string]func(*decision, *member){
			"it is the member": func(_ *decision, m *member) { m.duplicate = false },
			"it is on":         func(_ *decision, m *member) { m.Power = plan.PoweredOn },
		}},
		{deleted, finalizing, map[string]func(*decision, *member){
			"the group is not deleted":   func(d *decision, _ *member) { d.facts.Finalizing = false },
			"its group is being drained": drain,
		}},
		{retained, func(d *decision) { d.facts.Finalizing, d.facts.policy.Retain = true, true }, map[string]func(*decision, *member){
			"the group is not deleted":      func(d *decision, _ *member) { d.facts.Finalizing = false },
			"the deletion is not announced": func(_ *decision, m *member) { m.Generation = 1 },
		}},
	} {
		d, m := fresh()
		c.prepare(d)
		if !newSteps(d).canGo(m, c.on) {
			t.Errorf("reason %d: it can't go although every condition is met", c.on)
		}
		for name, breaks := range c.breaking {
			d, m := fresh()
			c.prepare(d)
			if breaks(d, m); newSteps(d).canGo(m, c.on) {
				t.Errorf("reason %d: it can go although %s", c.on, name)
			}
		}
	}
}
