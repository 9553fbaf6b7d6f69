package planner

import (
	"cmp"
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A standby member is cloned and prepared, and stays powered off until it is promoted. The stamp of its clone says that it is one, until the
// promotion. From then on it is a member that is off and should be on, so the process can stop between the two. If an operator powers a
// standby member on, that promotes it. It never ran, so it needs no drain, shutdown or quarantine, and doesn't count as available. One that
// vCenter doesn't have is gone.

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
		if !here[m.MoRef] && !filled[m.Ordinal] && !s.facts.departed.Has(m.MoRef, "") {
			m.Ready, m.Reason, m.Message = false, plan.ReasonMemberNotSeen, plan.NotSeen
			s.notFoundStandby, s.unseenStandby[m.Ordinal] = append(s.notFoundStandby, m), true
		}
	}
}

// fit reports whether a standby member can be promoted now.
func (s *sets) fit(m *member) bool {
	p := s.facts.Pending[m.name]
	return s.facts.revision != "" && m.Reachable && !m.Marked && !m.contested && m.Question == "" && m.differs() == "" && !m.unprepared() && !s.facts.unfit(m) && !s.isNotFound(m.Ordinal) &&
		(p.State != plan.Running || p.Op == plan.PowerOn)
}

// unfit reports whether a standby member has to be created again.
func (f *facts) unfit(m *member) bool {
	return f.needsClone(m) || m.unprepared() && !f.preparable(m) ||
		slices.Contains(f.Group.Spec.Replace, v1alpha1.Replacement{Name: m.name, MoRef: m.MoRef})
}

// promote decides which standby members are promoted, up to most, and returns how many. Those that are being promoted come first, and those
// whose promotion failed come last; among the others, those in the zone with the fewest members come first.
func (d *decision) promote(most int) (promoted int) {
	if len(d.sets.standby) == 0 || most <= 0 || d.facts.awaitsRules() {
		return 0
	}
	load := d.pickOrdinals()
	for ; promoted < most; promoted++ {
		var next *member
		better := func(m *member) bool {
			rank := func(m *member) int {
				switch p := d.facts.Pending[m.name]; {
				case p.State == plan.Running:
					return 0
				case p.Fault.Reason == "":
					return 1
				}
				return 2
			}
			return next == nil || cmp.Or(cmp.Compare(rank(m), rank(next)), cmp.Compare(load.Load(m.Ordinal), load.Load(next.Ordinal))) < 0
		}
		for i := range d.sets.standby {
			if m := &d.sets.standby[i]; !m.leaves() && d.sets.fit(m) && better(m) {
				next = m
			}
		}
		if next == nil {
			break
		}
		next.fate = withdrawn
		load.Count(next.Ordinal)
		next.decide(plan.Create, "standby member promoted: "+d.promotionText(promoted))
		next.wants(needsPromotion, next.why)
	}
	return promoted
}

// promoteStandby powers a standby member on and makes it a member in its stamp. If an operator powered it on, only the stamp changes.
func (s *steps) promoteStandby(m *member, why string) {
	running := m.Power == plan.PoweredOn
	if unblocked := s.act(s.facts.promotion(m, why)); !running {
		m.begins(starting, unblocked)
	}
}

const runningText = "a standby member that was powered on becomes a member"

func (f *facts) promotion(m *member, reason string) plan.Action {
	return plan.Action{Op: plan.PowerOn, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: plan.PowerOnArgs{Promotes: true},
		Generation: f.Group.Generation, Reason: reason}
}

// promotionText says why the n-th member that is promoted now is wanted.
func (d *decision) promotionText(n int) string {
	switch {
	case d.sets.ordinals+len(d.arriving)+n < d.facts.want:
		return d.sets.membersText()
	case slices.ContainsFunc(d.sets.members, func(m member) bool { return m.leaves() && m.nominated == plan.WhyHealing }):
		return "instead of an unhealthy member"
	}
	return d.surgeText(n + 1)
}

// soonFit is how many standby members, promoted ones apart, will be fit without an operator's help.
func (d *decision) soonFit() (n int) {
	for _, ordinal := range d.standbyComing {
		n += int(oneIf(d.facts.Pending[plan.MemberName(d.facts.Group.Name, ordinal)].Fault.Reason == ""))
	}
	for i := range d.sets.standby {
		m := &d.sets.standby[i]
		if !m.leaves() && m.Reachable && !m.MarkedForRemoval() && !m.duplicate && m.Question == "" && !d.facts.unfit(m) && d.facts.Pending[m.name].Fault.Reason == "" && !d.sets.isNotFound(m.Ordinal) {
			n++
		}
	}
	return n
}

// standbyFirst reports whether an update waits for the standby members, so that it can promote them: those that differ from the spec are
// updated before serving members are, and all of them exist before the first serving member is replaced. One more than spec.standby, which is made
// while another is being promoted, is not waited for: that would withdraw the promotion.
func (s *sets) standbyFirst() bool {
	here, done, differ := len(s.notFoundStandby), 0, false
	for i := range s.standby {
		m := &s.standby[i]
		here++
		due := m.differs() != "" || m.unprepared()
		done += int(oneIf(!due && m.Reachable && !m.duplicate && m.Question == ""))
		differ = differ || due && m.Reachable && !m.duplicate && m.Question == ""
	}
	return differ && done < int(s.facts.Group.Spec.Standby) || here < int(s.facts.Group.Spec.Standby) && !slices.ContainsFunc(s.members, func(m member) bool { return m.differs() == "" })
}

// decideStandby decides what becomes of the standby members, in the order of orderOf. The first row that applies:
//
//	what                                       verdict        why, and what it waits for
//	-----------------------------------------  -------------  ---------------------------------------------------
//	a duplicate                                Remove         another VM is the member
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
		if m.duplicate {
			m.decide(plan.Remove, duplicateReason(m))
		}
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
			m.wants(needsDiscard, m.why)
		case d.facts.upkeep(m) != "":
			m.decide(plan.Update, d.facts.upkeep(m))
			m.wants(needsUpkeep, m.why)
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
		unblocked = s.act(plan.Action{Op: plan.Reconfigure, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: s.facts.resizeArgs(m, false), Reason: why})
	}
	m.begins(standingBy, unblocked)
}

// discardStandby marks a standby member, and then removes it: enough others are left without it, or it is created again.
func (s *steps) discardStandby(m *member, why string) {
	switch again := m.becomes == plan.Update; {
	case !m.MarkedForRemoval() && again:
		s.act(s.facts.replacing(m, plan.WhyUpdate, why))
		s.reportFailedRehearsal(m)
	case !m.MarkedForRemoval():
		s.act(s.facts.marking(m, plan.WhyScaleIn, why))
	default:
		s.remove(m, idle, why)
	}
	m.begins(discarding, true)
}

// againText says why a standby member is created again.
func againText(m *member) string {
	return "standby member recreated: " + cmp.Or(prefixed("it ", m.differs()), "spec.replace names it, or it was created for another spec")
}
