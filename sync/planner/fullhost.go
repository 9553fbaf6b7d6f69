package planner

import (
	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// fullHost is the reason of members that never ran because their host has no room for them: they are cloned on another host. (vsphere checks
// vCenter's events before it returns that fault.)
type fullHost struct{}

func (fullHost) nominate(d *decision, order []int) {
	if d.facts.policy.Heal == v1alpha1.HealNone {
		return
	}
	for _, i := range order {
		m := &d.sets.members[i]
		p := d.facts.Pending[m.name]
		if p.Op == plan.PowerOn && p.Fault.Reason == plan.ReasonHostFull && p.MoRef == m.MoRef && m.Power == plan.PoweredOff && m.Reachable && m.BootTime.IsZero() && m.nominated == "" {
			m.nominate(plan.MarkReasonHealing, "its host has no room for it, and it never ran: replaced on another host")
		}
	}
}
