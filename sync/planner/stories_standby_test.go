package planner_test

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// standbyStories are about members that are cloned, prepared and off until they are needed.
var standbyStories = map[string]func(*story){
	"standby": func(s *story) {
		s.happens("three members and two standby ones are applied", edit(func(spec *v1alpha1.VmGroupSpec) {
			spec.Standby = 2
			spec.Tags = []v1alpha1.Tag{{Category: "team", Name: "shop"}}
		}))
		s.happens("scaled to 5: both are promoted, and two others made", s.scale(5))
		s.happens("an operator destroys web-1", drop(1))
		s.happens("an operator destroys a standby member", drop(6))
		s.happens("an operator powers a member off: it is powered on, and none is promoted", change(0, func(m *plan.VM) { m.Power = plan.PoweredOff }))
		s.happens("an operator powers a standby member on: it is a member, and one is too many", change(1, func(m *plan.VM) { m.Power = plan.PoweredOn }))
		s.happens("more memory: the standby members first", edit(func(spec *v1alpha1.VmGroupSpec) { spec.Memory = 8 }))
		s.happens("scaled to 0: they stay", s.scale(0))
		s.happens("scaled to 2", s.scale(2))
		s.happens("standby 1", edit(func(spec *v1alpha1.VmGroupSpec) { spec.Standby = 1 }))
		s.happens("deleted, and its members retained", func(o *plan.Observed) { o.Group.Spec.Deletion.Policy = v1alpha1.DeletionRetain; remove(o) })
		s.happens("the leases of other replicas are over", func(o *plan.Observed) { o.Now = o.Now.Add(o.Lease) })
	},
	"roll with standby": func(s *story) {
		s.happens("three members and two standby ones are applied", edit(func(spec *v1alpha1.VmGroupSpec) { spec.Standby = 2 }))
		s.happens("another template: the standby members first, then the members, by promotion", edit(func(spec *v1alpha1.VmGroupSpec) { spec.Template = "debian" }))
		s.happens("a clone of a standby member fails: the roll waits", func(o *plan.Observed) {
			edit(func(spec *v1alpha1.VmGroupSpec) { spec.Template = "fedora" })(o)
			o.Pending = map[string]plan.Pending{}
			for i := range 8 {
				o.Pending[fmt.Sprintf("web-%d", i)] = plan.Pending{Op: plan.Clone, Ordinal: int32(i), Standby: true, State: plan.BackingOff,
					Fault: plan.Fault{Reason: "DatastoreFull", Message: "the datastore is full", NeedsOperator: true}}
			}
		})
		s.happens("there is room again", func(o *plan.Observed) { o.Pending = nil })
	},
	"heal with standby": func(s *story) {
		s.o.Group.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
		s.o.Group.Spec.Healing.Action = v1alpha1.HealReplace
		s.happens("three members and one standby one are applied, in three zones", edit(func(spec *v1alpha1.VmGroupSpec) {
			spec.Standby = 3
			spec.Placement.Zones = []string{"east", "west", "north"}
		}))
		s.happens("the guest of web-1 does not come up after a power-on: one is promoted in its zone before it is gone", change(1, func(m *plan.VM) { m.Tools, m.IPs = false, nil }))
	},
}
