package planner

import (
	"cmp"
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Two VMs can have the stamp of one ordinal although the name is a lock: a missing member returns beside its replacement; an operator renames a
// new member before another replica of the server has seen it, or restores a backup; or a clone that another replica began ends late. The
// rule depends on what vCenter shows alone, so all replicas decide the same. Of the VMs of one ordinal, the first in this order is the
// member:
//
//	1. one that runs (or is off for its new size) and can be reached
//	2. one that runs
//	3. one that has the ordinal's persistent disks, which have data
//	4. one that is a member before a standby member
//	5. the one that was created last
//
// A duplicate that was never powered on, by vCenter's events, has no data and is destroyed. Any other is marked, powered off, and kept in
// quarantine without a time limit (Why: Duplicate) until an operator deletes it, or the group is deleted. A member that is off is powered on
// only after that.

// toSettle removes a duplicate. It comes before all other concerns, because a duplicate and its member have one name, and so one step.
var toSettle = &concern{next: (*steps).settleDuplicate}

// findDuplicates finds, among VMs that are in order, those of which another one is the member.
func (f *facts) findDuplicates(members []member) {
	for begin, end := 0, 0; begin < len(members); begin = end {
		for end = begin; end < len(members) && members[end].Ordinal == members[begin].Ordinal; end++ {
		}
		first := begin
		for i := begin + 1; i < end; i++ {
			if comparePlace(&members[i], &members[first]) < 0 {
				first = i
			}
		}
		for i := begin; i < end; i++ {
			members[i].duplicate, members[i].contested = i != first, end-begin > 1
		}
	}
}

// comparePlace orders VMs of one ordinal: the first is the member.
func comparePlace(a, b *member) int {
	rank := func(m *member) int {
		switch on := m.Power == plan.PoweredOn || m.Marked && m.MarkReason == plan.MarkReasonPowerCycle; {
		case on && m.Reachable:
			return 0
		case on:
			return 1
		case m.hasData():
			return 2
		case !m.IsStandby():
			return 3
		}
		return 4
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), b.Created.Compare(a.Created), cmp.Compare(a.MoRef, b.MoRef))
}

// registeredAgain reports whether another VM of the ordinal has the same instanceUuid. vCenter has at most one VM with an instanceUuid, so both are
// the member, registered again, and the inventory will soon drop its former moRef. (test/world, seed 5949: it was kept in quarantine, with
// the disks that its replacement needed.)
func (s *sets) registeredAgain(m *member) bool {
	for x := range s.all() {
		if x.Ordinal == m.Ordinal && x.MoRef != m.MoRef && x.InstanceUUID != "" && x.InstanceUUID == m.InstanceUUID {
			return true
		}
	}
	return false
}

// decideDuplicates decides that duplicates are removed.
func (d *decision) decideDuplicates() {
	for m := range d.sets.all() {
		if !m.duplicate {
			continue
		}
		m.decide(plan.Remove, fmt.Sprintf("another VM is %s now", m.name))
		if m.Reachable && m.Question == "" && !d.sets.registeredAgain(m) {
			m.wants(toSettle, m.why)
		}
	}
}

func (s *steps) settleDuplicate(m *member, why string) { m.begins(tidying, s.settle(m, why)) }

func (s *steps) settle(m *member, reason string) (unblocked bool) {
	p := s.facts.Pending[m.name]
	wasOn := p.Op == plan.Destroy && p.MoRef == m.MoRef && p.Fault.Reason == plan.ReasonDuplicateMember
	switch {
	case m.MarkedForRemoval() && m.MarkReason == plan.MarkReasonDuplicate:
		return s.remove(m, chosen, reason)
	case m.Power == plan.PoweredOff && !m.hasData() && !wasOn:
		return s.remove(m, duplicate, reason+", and this one was never powered on")
	}
	return s.act(s.facts.marking(m, plan.MarkReasonDuplicate, reason))
}

// contestUnseen marks members that are off as contested, so that they aren't powered on, while a VM of their ordinal that vCenter doesn't show may
// run.
func (s *sets) contestUnseen() {
	for i := range s.members {
		if m := &s.members[i]; m.Power != plan.PoweredOn && s.isNotFound(m.Ordinal) {
			m.contested = true
		}
	}
}
