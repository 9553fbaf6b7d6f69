package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// requested is the reason of members that spec.replace names. An entry has the moRef of the VM, so a VM that replaced it isn't named.
type requested struct{}

func (requested) nominate(d *decision, order []int) {
	for _, r := range d.facts.Group.Spec.Replace {
		for _, i := range order {
			m := &d.sets.members[i]
			switch {
			case m.MoRef != r.MoRef:
			case m.name != r.Name:
				d.incorrect = append(d.incorrect, plan.FaultOf{Who: r.Name, Fault: plan.Fault{Reason: plan.ReasonInvalidSpec, NeedsOperator: true, Object: r.MoRef}})
			default:
				m.nominate(plan.MarkReasonReplace, "spec.replace names it")
				if m.fate == held {
					m.fate = remains
				}
			}
		}
	}
}
