package planner

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Several reasons nominate a member to be replaced. None of them takes a member down: selectForRemoval selects among the nominated members
// and those that are too many, since all share maxUnavailable, maxSurge and one order. A later reason replaces an earlier one:
//
//	reason                                              nominates with                   in
//	--------------------------------------------------  -------------------------------  -------------------------
//	an update: the member differs from the spec, as     WhyUpdate, or WhyResize          nominateOutdated, update.go
//	by its revision, its template or its age
//	spec.replace names the VM                           WhyReplace                       nominateRequested
//	healing: the member stays unready                   WhyHealing, unless a restart     nominateUnhealthy, heal.go
//	                                                    comes first
//	healing: its host has no room, and it never ran     WhyHealing                       nominateForAnotherHost, heal.go
//
// A scale-in, a duplicate and a standby member need no nomination: these aren't replaced (selectForRemoval, duplicates.go, standby.go).

// nominate nominates the member to be replaced. reason is for the status.
func (m *member) nominate(why plan.Why, reason string) { m.nominated, m.why = why, reason }

// nominateRequested nominates the members that spec.replace names. An entry has the moRef of the VM, so a VM that replaced it isn't named.
func (d *decision) nominateRequested(order []int) {
	for _, r := range d.facts.Group.Spec.Replace {
		for _, i := range order {
			m := &d.sets.members[i]
			switch {
			case m.MoRef != r.MoRef:
			case m.name != r.Name:
				d.incorrect = append(d.incorrect, named{Who: r.Name, Fault: plan.Fault{Reason: plan.ReasonInvalidSpec, NeedsOperator: true, Message: fmt.Sprintf(
					"spec.replace names it with %s, which is %s: correct one of them", r.MoRef, m.name)}})
			default:
				m.nominate(plan.WhyReplace, "spec.replace names it")
				if m.delay == held {
					m.delay = notDelayed
				}
			}
		}
	}
}
