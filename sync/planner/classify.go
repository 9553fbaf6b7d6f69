// This file sorts the VMs and the ordinals of a group into sets.

package planner

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// sets are the VMs of a group, and the ordinals without a VM. They are empty while vCenter's state is unknown.
type sets struct {
	facts               *facts
	members             []member               // by ordinal and moRef, without standby members
	standby             []member               // standby members, by ordinal and moRef
	quarantined         []member               // VMs that were members, and are kept in quarantine
	free                []*member              // ordinals whose VM is being created
	asking              []*member              // VMs of all three kinds that wait for an operator's answer
	notFound            []notFoundMember       // members in the status that vCenter neither shows nor has reported as removed
	notFoundQuarantined []v1alpha1.Quarantined // VMs in quarantine, likewise
	// notFoundStandby are standby members, likewise. standbyComing are the ordinals of standby members that are being cloned.
	notFoundStandby  []v1alpha1.StandbyMember
	standbyComing    []int32
	ordinals         int               // number of different ordinals of members and notFound
	arriving         []int32           // ordinals of members that are being cloned or adopted
	ordinalsNotFound int               // number of those that only notFound has
	gone             []v1alpha1.Member // members in the status that vCenter reported as removed
	givenUp          []notFoundMember  // missing members that were given up, and whose ordinal no other VM has
	replaced         []v1alpha1.Member // missing members that were given up, and whose ordinal another VM has
	// unseen and unseenStandby are the ordinals of notFound and notFoundStandby, for look-ups: a status can have thousands.
	unseen, unseenStandby map[int32]bool
	// draining: the members of a deleted group are being drained.
	draining bool
	wake     wake
	// suppressed is why failed probes don't make members unready; nil if they do.
	suppressed *plan.Fault
}

func classify(f *facts) *sets {
	s := &sets{facts: f, wake: wake{now: f.Now}, unseen: map[int32]bool{}, unseenStandby: map[int32]bool{}}
	if !s.facts.vCenterKnown {
		s.draining = s.drainsAll()
		return s
	}
	s.sortMembers()
	s.draining = s.drainsAll()
	s.sortNotFound()
	s.ordinals, s.ordinalsNotFound = s.countOrdinals()
	s.examineStandby()
	s.contestUnseen()
	s.sortArriving()
	s.sortReturned()
	return s
}

func (s *sets) sortMembers() {
	s.members = make([]member, 0, len(s.facts.State.VMs))
	for _, vm := range s.facts.State.VMs {
		if m := (member{VM: vm, name: plan.MemberName(s.facts.Group.Name, vm.Ordinal), haltsUntil: s.facts.haltsUntil(&vm)}); vm.Quarantined.IsZero() {
			s.members = append(s.members, m)
		} else {
			s.quarantined = append(s.quarantined, m)
		}
	}
	inOrder := func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), strings.Compare(a.MoRef, b.MoRef))
	}
	slices.SortFunc(s.members, inOrder)
	slices.SortFunc(s.quarantined, inOrder)
	s.splitStandby()
	s.facts.findDuplicates(s.members)
	s.facts.findDuplicates(s.standby)
	s.sortAsking()
	for i := range s.members {
		s.examine(i)
	}
	s.findSuppressed()
}

func (s *sets) sortArriving() {
	for _, p := range slices.SortedFunc(maps.Values(s.facts.Pending), func(a, b plan.Pending) int { return cmp.Compare(a.Ordinal, b.Ordinal) }) {
		if (p.Op == plan.Clone || p.Op == plan.Adopt) && p.State == plan.Running && !s.has(p.Ordinal) && !s.isNotFound(p.Ordinal) && !s.isStandby(p.Ordinal) {
			m := vacancy("it is being created")
			m.assign(s.facts.Group.Name, p.Ordinal)
			s.free = append(s.free, m)
			if m.Standby = p.Standby && !s.facts.Finalizing; m.Standby {
				s.standbyComing = append(s.standbyComing, p.Ordinal)
				m.begins(standingBy, true)
				continue
			}
			s.arriving = append(s.arriving, p.Ordinal)
			if p.Op == plan.Clone && p.Fault.Reason == "" {
				m.begins(cloning, true)
			}
		}
	}
}

// has reports whether vCenter shows a member with that ordinal.
func (s *sets) has(ordinal int32) bool {
	_, found := slices.BinarySearchFunc(s.members, ordinal, func(m member, o int32) int { return cmp.Compare(m.Ordinal, o) })
	return found
}

func (s *sets) isNotFound(ordinal int32) bool {
	return s.unseen[ordinal]
}

// taken reports whether no new member can have the ordinal: a member has it (whether or not vCenter shows it), or a standby member, or a VM that
// is being cloned; or a VM on its way to quarantine still has its name.
func (d *decision) taken(ordinal int32) bool {
	return d.sets.has(ordinal) || d.sets.isNotFound(ordinal) || d.isStandby(ordinal) || slices.Contains(d.arriving, ordinal) ||
		slices.ContainsFunc(d.sets.quarantined, func(q member) bool { return q.Ordinal == ordinal && d.facts.blocksName(&q) })
}
