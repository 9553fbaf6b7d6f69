// This file stops an update whose clones don't make members as the spec says.

package planner

import (
	"cmp"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// findInVain finds the members and standby members that were cloned in vain: each was cloned for all that the spec, the user data and the template
// say now, since the group ceased to be as its spec says, and differs from the spec in what only a new clone can change. Its age is no such
// difference. Another clone would be no better, so the update stops; otherwise it would replace members for ever.
//
// An adopted VM, one that was resized, and one that an older version of the server cloned, have no record of what they were cloned for. A VM that was as the spec says until
// somebody changed it was cloned before the group ceased to be as its spec says. An update replaces all of these.
func (u *update) findInVain(d *decision) {
	now := ""
	find := func(m *member) {
		if m.ClonedFor == "" || m.duplicate || m.outdated == agedText || !d.facts.needsClone(m) || m.Created.Before(d.successors.since) {
			return
		}
		now = cmp.Or(now, plan.ClonedFor(&d.facts.Group.Spec, d.facts.revision, d.facts.State.Template.Fingerprint))
		if m.inVain = m.ClonedFor == now; m.inVain {
			u.inVain = append(u.inVain, m)
		}
	}
	if d.facts.revision == "" { // what a new clone would be made from is unknown
		return
	}
	for m := range d.sets.all() {
		find(m)
	}
}

// inVainFault is why an update stops whose clones still differ from the spec; nil if none does.
func (u *update) inVainFault() *plan.Fault {
	if len(u.inVain) == 0 {
		return nil
	}
	stuck := needsOperator(plan.ReasonSuccessorDiffers)
	return &stuck
}
