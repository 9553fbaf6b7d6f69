package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A VM that leaves vCenter's inventory may continue to run: on a host that was removed, in another vCenter, or unknown to a vCenter
// that was restored from a backup. So a member that vCenter does not show is in one of three states:
//
//	fact         known by                                       its ordinal
//	-----------  ---------------------------------------------  -----------------------------------------------------------
//	gone         vCenter's events, or this process's Destroy    is free
//	unconfirmed  nothing yet                                    is taken; it counts as leaving: no other member is removed
//	                                                            instead of it
//	missing      vCenter's events, or no event that says more   is taken until vCenter shows it again, or it is given up:
//	                                                            spec.replace names it, or
//	                                                            spec.healing.replaceVanishedAfterSeconds are over
//
// A member that was given up is listed in status.members until another VM has its ordinal. If vCenter shows it again after that, two VMs have
// one ordinal (duplicates.go).
//
// A member that vCenter shows again is a member as before, unless the group has more members than it wants by then. It is never kept instead of
// a member that served all the time:
//
//	while it was missing, it was  known by                                          it
//	----------------------------  ------------------------------------------------  --------------------------------------------------
//	given up                      status.givenUp; or spec.replace, or the time      is removed first, and kept in quarantine as a
//	                              that is over, and its record in status.members    duplicate, unless it has persistent disks
//	not given up                  its record in status.members: vanishedAt, or its  is removed first in the scale-in
//	                              instanceUUID with another moRef
//
// Neither a restart nor an older status changes that. The spec that gives a member up and the status that has it as missing are parts of one
// object, so a status that comes with that spec is not older. status.givenUp has the VM even after another VM had its ordinal and was removed
// by a scale-in; vCenter doesn't show that it was given up. The records are kept until the group has no member too many, or the VM's stamp
// has the mark.

// sortNotFound finds the recorded members and VMs in quarantine that vCenter no longer shows.
func (s *sets) sortNotFound() {
	kept := s.facts.Group.Status.Quarantined
	if len(s.facts.Group.Status.Members)+len(kept)+len(s.facts.State.Vanished) == 0 {
		return
	}
	here := make(map[string]plan.VMID, len(s.facts.State.VMs))
	for i := range s.facts.State.VMs {
		here[s.facts.State.VMs[i].MoRef] = s.facts.State.VMs[i].ID()
	}
	vanished := make(map[string][]*plan.Vanished, len(s.facts.State.Vanished))
	for i := range s.facts.State.Vanished {
		x := &s.facts.State.Vanished[i]
		vanished[x.MoRef] = append(vanished[x.MoRef], x)
	}
	for i := range s.facts.Group.Status.Members {
		switch m := &s.facts.Group.Status.Members[i]; {
		case s.facts.shows(here, m):
		case s.facts.isStray(plan.IDOf(m)):
		case s.facts.departed.Has(plan.IDOf(m)):
			s.gone = append(s.gone, *m)
		default:
			s.addNotFound(*m, missingAs(vanished[m.MoRef], m))
		}
	}
	records, quarantined := plan.RecordsOf(s.facts.Group.Status.Members, s.facts.State.VMs), make(map[string]bool, len(kept))
	for i := range kept {
		quarantined[kept[i].MoRef] = true
	}
	for i := range s.facts.State.Vanished {
		x := &s.facts.State.Vanished[i]
		m := v1alpha1.Member{Name: plan.MemberName(s.facts.Group.Name, x.Ordinal), Ordinal: x.Ordinal, MoRef: x.MoRef, InstanceUUID: x.InstanceUUID}
		if x.Name != m.Name {
			m.VMName = plan.Printable(x.Name)
		}
		if !s.facts.shows(here, &m) && !records.Supersede(x) && !records.Has(x) && !quarantined[x.MoRef] {
			s.addNotFound(m, x) // it was not in the status yet
		}
	}
	for _, q := range kept {
		if _, shown := here[q.MoRef]; !shown && !s.facts.isStray(plan.VMID{MoRef: q.MoRef, InstanceUUID: q.InstanceUUID}) && !s.facts.departed.Has(plan.VMID{MoRef: q.MoRef}) {
			s.notFoundQuarantined = append(s.notFoundQuarantined, q)
		}
	}
}

// shows reports whether vCenter shows a recorded member, perhaps with another moRef. here has the VMs by moRef.
func (f *facts) shows(here map[string]plan.VMID, m *v1alpha1.Member) bool {
	vm, is := here[m.MoRef]
	return is && vm.Is(plan.IDOf(m)) || f.isBack(m)
}

// missingAs returns what is known of a recorded member, of those with its moRef.
func missingAs(vanished []*plan.Vanished, m *v1alpha1.Member) *plan.Vanished {
	for _, x := range vanished {
		if x.Is(m) {
			return x
		}
	}
	return nil
}

// lost counts the members that are gone or given up, whose ordinals are free, and that the server did not remove.
func (s *sets) lost() (n int) {
	for i := range s.gone {
		n += int(oneIf(s.gone[i].Reason != plan.ReasonRemoving && !s.has(s.gone[i].Ordinal)))
	}
	for i := range s.givenUp {
		n += int(oneIf(s.givenUp[i].Reason != plan.ReasonRemoving))
	}
	return n
}

// countOrdinals counts the ordinals that members have, and those of them that only notFound members have.
func (s *sets) countOrdinals() (all, notFound int) {
	for i := range s.members {
		all += int(oneIf(!s.members[i].duplicate))
	}
	before := make(map[int32]bool, len(s.notFound))
	for i := range s.notFound {
		ordinal := s.notFound[i].Ordinal
		notFound += int(oneIf(!before[ordinal] && !s.has(ordinal)))
		before[ordinal] = true
	}
	return all + notFound, notFound
}

// addNotFound adds a member that vCenter does not show to notFound, unless it is given up. x is what vCenter reported of it; if that is nil, the
// stored status of the member is kept.
func (s *sets) addNotFound(m v1alpha1.Member, x *plan.Vanished) {
	m.Message = strings.TrimSuffix(m.Message, "; "+plan.AsLastKnown)
	a := notFoundMember{Member: m, left: x != nil, missing: !m.VanishedAt.IsZero()}
	if x != nil && x.How != "" {
		a.missing, a.Message = true, x.How
		if !s.facts.names(&m) {
			a.Replace = ""
		} else if a.VanishedAt.IsZero() {
			a.Replace = v1alpha1.ReplaceHeld
		}
		if n := s.facts.LastPlannedRecord(m.MoRef, -1); a.VanishedAt.IsZero() && n != nil && n.InstanceUUID == m.InstanceUUID {
			a.VanishedAt = n.VanishedAt
		}
		if a.VanishedAt.IsZero() {
			a.VanishedAt = metav1.NewTime(s.facts.Now.UTC().Truncate(time.Second))
		}
		if s.facts.Finalizing && s.facts.policy.Retain { // a deletion leaves its VM behind in any case
			return
		}
		if s.givesUp(&a.Member) {
			if s.has(m.Ordinal) { // another VM is this member now
				s.replaced = append(s.replaced, a.Member)
			} else {
				s.givenUp = append(s.givenUp, a)
			}
			return
		}
	}
	s.notFound, s.unseen[a.Ordinal] = append(s.notFound, a), true
}

// names reports whether spec.replace names a member.
func (f *facts) names(m *v1alpha1.Member) bool {
	return slices.Contains(f.Group.Spec.Replace, v1alpha1.Replacement{Name: plan.MemberName(f.Group.Name, m.Ordinal), MoRef: m.MoRef})
}

// givesUp reports whether a missing member is given up, so that a new one can have its ordinal. An entry of spec.replace that was there before
// the member was missing asked for a VM to be replaced, not for a second VM beside it, so it doesn't give the member up. A member that was
// given up remains so, even if the entry is removed from the spec. A deletion doesn't give a member up: no status would list the VM that is
// left behind.
func (s *sets) givesUp(m *v1alpha1.Member) bool {
	f := s.facts
	switch {
	case f.names(m) && m.Replace != v1alpha1.ReplaceHeld:
		return true
	case f.Finalizing:
		return false
	case f.isListedGivenUp(m.InstanceUUID):
		return true
	case f.policy.ReplaceMissing == 0 || m.VanishedAt.IsZero() || plan.VCenterOf(m.MoRef) != "": // it may be on its way from another vCenter
		return false
	}
	due := m.VanishedAt.Add(f.policy.ReplaceMissing)
	s.wake.note(due)
	return !f.Now.Before(due)
}

// missingNames names the missing members.
func (s *sets) missingNames() (names []string) {
	for i := range s.notFound {
		if m := &s.notFound[i]; m.missing {
			names = append(names, fmt.Sprintf("%s (%s: %s)", plan.MemberName(s.facts.Group.Name, m.Ordinal), m.MoRef, m.Message))
		}
	}
	return names
}

// unreachable names the members that exist but that vCenter cannot reach or show, those of one host together.
func (s *sets) unreachable() []string {
	var names, notes []string
	of := map[string][]*member{}
	for i := range s.members {
		if m := &s.members[i]; !m.Reachable {
			note := plan.OutOfReach(m.Unreachable, m.Host)
			if of[note] == nil {
				notes = append(notes, note)
			}
			of[note] = append(of[note], m)
		}
	}
	for _, note := range notes {
		if all := of[note]; len(all) == 1 {
			names = append(names, all[0].displayWith(note))
		} else {
			names = append(names, plan.AtMost(namesOf(all), 5)+" ("+note+")")
		}
	}
	for i := range s.notFound {
		if m := &s.notFound[i]; m.hidden() {
			names = append(names, fmt.Sprintf("%s (not seen)", plan.MemberName(s.facts.Group.Name, m.Ordinal)))
		}
	}
	return names
}

// unconfirmed names the members that are absent for a reason that is not known yet, as for a moment after a process is restarted.
func (s *sets) unconfirmed() (names []string) {
	for i := range s.notFound {
		if m := &s.notFound[i]; !m.missing && !m.hidden() {
			names = append(names, plan.MemberName(s.facts.Group.Name, m.Ordinal))
		}
	}
	return names
}

func (f *facts) isListedGivenUp(instanceUUID string) bool {
	return instanceUUID != "" && slices.ContainsFunc(f.Group.Status.GivenUp, func(g v1alpha1.GivenUp) bool { return g.InstanceUUID == instanceUUID })
}

// sortReturned finds the members that were missing and that vCenter shows again, while the group has more members than it wants. Clones that are
// running and members that are missing count as members.
func (s *sets) sortReturned() {
	if s.facts.Finalizing || s.ordinals+len(s.arriving) <= s.facts.want {
		return
	}
	for i := range s.members {
		if m := &s.members[i]; !m.duplicate {
			away := s.facts.awayAs(m)
			listed := s.facts.isListedGivenUp(m.InstanceUUID)
			m.returned = listed || away != nil
			m.givenUp = (listed || away != nil && (away.Reason == plan.ReasonMemberGivenUp || s.givesUp(away))) && !m.hasData()
		}
	}
}

// awayAs returns the record of a member that shows that it was missing: one with another moRef, or that says since when it was; nil if
// there is none.
func (f *facts) awayAs(m *member) *v1alpha1.Member {
	for i := range f.Group.Status.Members {
		r := &f.Group.Status.Members[i]
		switch {
		case plan.IDOf(r).Is(m.ID()) && !r.VanishedAt.IsZero():
			return r
		case r.MoRef != m.MoRef && r.InstanceUUID != "" && r.InstanceUUID == m.InstanceUUID:
			return r
		}
	}
	return nil
}
