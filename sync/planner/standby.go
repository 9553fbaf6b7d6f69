package planner

import (
	"cmp"
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A standby member is cloned and prepared, and stays powered off until it is promoted. The stamp of its clone says that it is one, until the
// promotion. From then on it is a member that is off and should be on, so the process can stop between the two. If an operator powers a
// standby member on, that promotes it. It never ran, so it needs no drain, shutdown or quarantine, and doesn't count as available. One that
// vCenter doesn't have is gone.

// toDiscard removes a standby member. toKeepUp brings one that is kept in line with the spec, in what changes in place.
var (
	toDiscard = &concern{next: (*steps).discardStandby}
	toKeepUp  = &concern{next: (*steps).updateStandby}
)

// discarding: a standby member is removed.
var discarding = &plan.Activity{Says: "removing %s", Noun: "standby member", Background: true, Standby: true}

// splitStandby moves the standby members out of members, which are in order, except for those whose ordinal a member has.
func (s *sets) splitStandby() {
	if !slices.ContainsFunc(s.members, func(m member) bool { return m.IsStandby() }) {
		return
	}
	var serving []member
	for begin, end := 0, 0; begin < len(s.members); begin = end {
		for end = begin; end < len(s.members) && s.members[end].Ordinal == s.members[begin].Ordinal; end++ {
		}
		claimants := s.members[begin:end]
		if slices.ContainsFunc(claimants, func(m member) bool { return !m.IsStandby() }) {
			serving = append(serving, claimants...)
			continue
		}
		s.standby = append(s.standby, claimants...)
	}
	s.members = serving
}

// sortNotFoundStandby finds the recorded standby members that vCenter neither shows nor has reported as removed.
func (s *sets) sortNotFoundStandby() {
	here, filled := make(map[string]bool, len(s.facts.State.VMs)), make(map[int32]bool, len(s.facts.State.VMs))
	for i := range s.facts.State.VMs {
		vm := &s.facts.State.VMs[i]
		here[vm.MoRef] = true
		filled[vm.Ordinal] = filled[vm.Ordinal] || vm.Quarantined.IsZero()
	}
	for _, m := range s.facts.Group.Status.Standby {
		if !here[m.MoRef] && !filled[m.Ordinal] && !s.facts.departed.Has(plan.VMID{MoRef: m.MoRef}) {
			m.Ready, m.Reason, m.Message = false, plan.ReasonMemberNotSeen, plan.NotSeen
			s.notFoundStandby, s.unseenStandby[m.Ordinal] = append(s.notFoundStandby, m), true
		}
	}
}

// decideStandby decides what becomes of the standby members, in the order of orderOf. The first row that applies:
//
//	what                                       verdict        why, and what it waits for
//	-----------------------------------------  -------------  ---------------------------------------------------
//	a duplicate                                Remove         as decided (decideDuplicates)
//	promoted                                   Create         a member is missing (promote)
//	not reachable                              -
//	unfit, and none would be left instead      Update         why it is created again; a successor
//	unfit, and fewer others than spec.standby  Update         why it is created again
//	one too many, or marked for removal        Remove         spec.standby
//	unlike the spec in what can change         Update         what is changed
func (d *decision) decideStandby() {
	wanted := int(d.facts.Group.Spec.Standby)
	here, stay := len(d.sets.notFoundStandby), 0 // a member that is not found counts as leaving: no other is removed instead of it
	for i := range d.sets.standby {
		m := &d.sets.standby[i]
		if !m.leaves() {
			here++
			stay += int(oneIf(!m.MarkedForRemoval() && !d.facts.unfit(m)))
		}
	}
	left := here
	for _, i := range d.sets.orderOf(d.sets.standby) {
		m := &d.sets.standby[i]
		switch {
		case m.leaves() || !m.Reachable:
		case d.facts.unfit(m) && left <= wanted && !d.canBeRecreated(m, wanted-left):
			m.decide(plan.Update, againText(m))
			m.awaits = aSuccessor
			if d.cloneBlocked(m) || d.wouldBeInVain(m) {
				m.awaits = anOperator
			}
		case m.MarkedForRemoval() || d.facts.unfit(m) || stay > wanted:
			stay -= int(oneIf(!m.MarkedForRemoval() && !d.facts.unfit(m)))
			left--
			if m.fate = withdrawn; d.facts.unfit(m) && left < wanted {
				m.decide(plan.Update, againText(m))
			} else {
				m.decide(plan.Remove, fmt.Sprintf("more standby members than spec.standby: %d", wanted))
			}
			m.wants(toDiscard, m.why)
		case d.facts.upkeep(m) != "":
			m.decide(plan.Update, d.facts.upkeep(m))
			m.wants(toKeepUp, m.why)
		}
	}
	d.cloneStandby(wanted - here - len(d.standbyComing))
}

// cloneStandby decides which ordinals are cloned for standby members.
func (d *decision) cloneStandby(count int) {
	if count <= 0 {
		return
	}
	ordinals := d.picker()
	for i := range d.sets.standby {
		if m := &d.sets.standby[i]; !m.leaves() {
			ordinals.Count(m.Ordinal)
		}
	}
	for _, ordinal := range d.standbyComing {
		ordinals.Count(ordinal)
	}
	vacant := make([]*member, count)
	for n := range vacant {
		vacant[n] = d.vacancy(fmt.Sprintf("too few standby members: %d of %d", int(d.facts.Group.Spec.Standby)-count, d.facts.Group.Spec.Standby))
		vacant[n].Standby = true
	}
	d.place(vacant, ordinals)
}

// lacksPreparation reports whether a standby member that is kept is to be prepared.
func (f *facts) lacksPreparation(m *member) bool {
	return m.unprepared() || f.preparable(m) && (m.Prepared != f.prepared || f.mayLackTags(m) != "")
}

// upkeep says how a standby member that is kept is brought in line with the spec; empty if it is in line.
func (f *facts) upkeep(m *member) string {
	switch {
	case f.lacksPreparation(m):
		return "it must be prepared as a standby member"
	case m.disks != "":
		return "disks: it " + m.disks
	}
	return prefixed("resize of a standby member: it ", m.resize)
}

// updateStandby brings a standby member that is kept in line with the spec.
func (s *steps) updateStandby(m *member, why string) {
	var unblocked bool
	switch {
	case s.facts.lacksPreparation(m):
		unblocked = s.prepare(m, why)
	case m.disks != "":
		unblocked = s.setDisksOf(m, why)
	default:
		unblocked = s.act(plan.Action{Op: plan.Reconfigure, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: s.facts.resizeArgs(m, false), Reason: why})
	}
	m.begins(standingBy, unblocked)
}

// discardStandby marks a standby member, and then removes it: enough others are left without it, or it is created again.
func (s *steps) discardStandby(m *member, why string) {
	switch again := m.becomes == plan.Update; {
	case !m.MarkedForRemoval() && again:
		s.act(s.facts.replacing(m, plan.MarkReasonUpdate, why))
		s.reportFailedRehearsal(m)
	case !m.MarkedForRemoval():
		s.act(s.facts.marking(m, plan.MarkReasonScaleIn, why))
	default:
		s.remove(m, idle, why)
	}
	m.begins(discarding, true)
}

// againText says why a standby member is created again.
func againText(m *member) string {
	return "standby member recreated: " + cmp.Or(prefixed("it ", m.differs()), "spec.replace names it, or it was created for another spec")
}
