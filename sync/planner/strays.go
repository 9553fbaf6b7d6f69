// This file has the VMs with the group's stamp that nothing shows to be the group's (plan.Weigh). No stage but the telling ones sees more of them than
// their ordinals, so no step is ever planned for one.

package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// sortStrays takes the ordinals that strays hold. A stray whose arrival is being looked up may be a clone of another replica, so it counts as arriving.
// One that holds its ordinal otherwise counts as nothing: members get other ordinals, if the group has any.
func (s *sets) sortStrays() {
	for i := range s.facts.State.Strays {
		x := &s.facts.State.Strays[i]
		if !x.Holds || slices.ContainsFunc(s.facts.State.Candidates, func(c plan.Candidate) bool { return c.MoRef == x.MoRef && !c.Done }) {
			continue // spec.adopt makes it the member
		}
		s.held[x.Ordinal] = true
		if x.Pending && !s.isClaimed(x.Ordinal) && !slices.Contains(s.arriving, x.Ordinal) {
			s.arriving = append(s.arriving, x.Ordinal)
		}
	}
}

// templatesOf returns the members that were converted to templates, by moRef.
func templatesOf(strays []plan.Stray) map[string]plan.VMID {
	all := map[string]plan.VMID{}
	for i := range strays {
		if x := &strays[i]; x.IsTemplate && x.Holds {
			all[x.MoRef] = x.ID()
		}
	}
	return all
}

// isStray reports whether a recorded VM is a stray now: one that was converted to a template.
func (f *facts) isStray(id plan.VMID) bool {
	was, is := f.templates[id.MoRef]
	return is && was.Is(id)
}
