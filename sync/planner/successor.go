package planner

import (
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A member that is replaced has a successor, the member that takes its place. No member is marked to be replaced, whatever the reason, unless
// its successor exists or can be created. Right before the step writes the mark, it checks that vCenter has what the clone needs
// (MarkArgs.Successor). The mark is withdrawn if no successor can be created after all.
//
// A clone can succeed and its VM never serve: its preparation fails, its host group has no room, or its guest never reports an address. So a
// new member shows that others like it can be created only once it is finished: it has the present spec, is prepared and powered on, and has
// been ready for minReadySeconds. All of that is read from vCenter, since a process forgets its failures when it ends.
//
//	what is known                                                      | which members are replaced
//	-------------------------------------------------------------------+---------------------------------------------------------
//	no member can be made until an operator acts                       | none (isIrreplaceable)
//	the last clone failed, and is tried again                          | only those with a mark
//	the place of the member can't be filled again (refillable)         | not this member
//	a member of the present spec is unfinished, or being made, or what | no member that may serve, but for healing
//	became of a member that vCenter doesn't show isn't known yet       |
//	the successor exists: a finished extra member                      | this member
//	a member of the same zone was cloned from this spec within an      | this member
//	hour, and is finished
//	a fit standby member exists, or a VM in quarantine that fits the   | this member
//	spec, and a member of this spec was powered on within an hour, and
//	is finished
//	none of these, and an extra member can come first (maxSurge)       | none before that one is finished, but for healing
//	none of these                                                      | one at a time: a fault that only the clone, its
//	                                                                   | preparation or its guest shows costs one member at most

// provenFor is how long a finished member shows that others like it can be made.
const provenFor = time.Hour

func (d *decision) findSuccessors() {
	s := &d.successors
	vacant := max(0, d.facts.want-d.sets.ordinals-len(d.arriving))
	fillable := d.freePlaces(vacant, nil)
	s.extra = d.sets.ordinals - d.facts.want + vacant - fillable - d.sets.unpromoted()
	s.since = d.facts.outOfStepSince()
	s.cloned = make([]time.Time, max(1, len(d.facts.Group.Spec.Placement.Zones)))
	for i := range d.sets.members {
		m := &d.sets.members[i]
		switch {
		case d.isFinished(m):
			s.note(m)
		case d.isUnfinished(m):
			s.unfinished = true
		}
	}
	lookedFor := slices.ContainsFunc(d.sets.notFound, func(m notFoundMember) bool { return m.hidden() }) // another replica may be replacing it
	s.unfinished = s.unfinished || len(d.arriving)+fillable > 0 || lookedFor
	for i := range d.sets.standby {
		m := &d.sets.standby[i]
		s.reserve += int(oneIf(d.sets.fit(m)))
		s.unfit = s.unfit || !d.sets.fit(m) && !d.facts.unfit(m) && !m.MarkedForRemoval() && m.Reachable
	}
	s.unfit = s.unfit || len(d.standbyComing) > 0
	for i := range d.sets.quarantined {
		q := &d.sets.quarantined[i]
		s.reserve += int(oneIf(d.fitsAgain(q) && !d.sets.has(q.Ordinal)))
	}
	for name, p := range d.facts.Pending {
		if p.Fault.Reason != "" && (p.Op == plan.Clone || p.Unrehearsed()) {
			s.failing = append(s.failing, name)
			if p.Fault.NeedsOperator {
				s.blocked = append(s.blocked, name)
			}
		}
	}
	slices.Sort(s.blocked)
	s.none = d.facts.sourceFault() != nil
}

// isFinished reports whether a member shows that others of the present spec can be created. An adopted member doesn't: it was not cloned.
func (d *decision) isFinished(m *member) bool {
	return m.differs() == "" && m.available() && !m.duplicate && m.Former == (plan.Former{})
}

// isUnfinished reports whether a member of the present spec, or a member that is off for its new size, doesn't serve yet and may never. A
// prepared member that vCenter can't reach does not count: vCenter shows nothing else about it.
func (d *decision) isUnfinished(m *member) bool {
	switch {
	case m.duplicate || m.available():
		return false
	case m.MarkedForRemoval() && (m.ready || m.MarkReason == plan.MarkReasonScaleIn): // it isn't needed any more, or serves until it is taken down
		return false
	case m.outdated == "" && m.resize != "":
		return m.Marked && m.Power != plan.PoweredOn
	}
	return m.outdated == "" && (m.Reachable || m.unprepared())
}

// note notes when a finished member was cloned, and powered on.
func (s *successors) note(m *member) {
	if zone := int(m.Ordinal) % len(s.cloned); m.Created.After(s.cloned[zone]) {
		s.cloned[zone] = m.Created
	}
	for _, at := range []time.Time{m.Created, m.BootTime} {
		if at.After(s.booted) {
			s.booted = at
		}
	}
}

// outOfStepSince is when the group's Ready condition became other than True. A member that was created before that doesn't show that another
// one of the same spec can be created now.
func (f *facts) outOfStepSince() time.Time {
	unready := func(is metav1.ConditionStatus) bool { return is != metav1.ConditionTrue }
	since := plan.Since(plan.SeenCondition(f.Group.Status.Conditions, v1alpha1.ConditionReady, unready), plan.SeenCondition(f.LastPlannedConditions(), v1alpha1.ConditionReady, unready))
	if since.IsZero() {
		return f.Now
	}
	return since
}

// isProven reports whether a member like the successor of this one was cloned lately, and is finished.
func (d *decision) isProven(m *member) bool {
	return d.isLate(d.successors.cloned[int(m.Ordinal)%len(d.successors.cloned)], m)
}

// isLate reports whether the time of a finished member is recent enough to show that the successor of member m can be created. If m was
// cloned from the present spec, the finished member must also be from after the group became unready: before that, clones worked for m, too.
func (d *decision) isLate(at time.Time, m *member) bool {
	until := at.Add(provenFor + d.facts.policy.MinReady)
	if at.IsZero() || (m.outdated == "" || m.outdated == agedText) && at.Before(d.successors.since) {
		return false
	}
	d.wake.note(until)
	return d.facts.Now.Before(until)
}

// another reports whether another member than this one is in the list. A member's own failure doesn't count: its mark is tried again.
func another(names []string, than *member) bool {
	return slices.ContainsFunc(names, func(name string) bool { return name != than.name })
}

// isIrreplaceable reports whether a member is not replaced because no successor of it can be made until an operator acts.
func (d *decision) isIrreplaceable(m *member) bool { return m.nominated != "" && d.cloneBlocked(m) }

// cloneBlocked reports whether an operator has to act before the successor of a member can be made.
func (d *decision) cloneBlocked(m *member) bool {
	return d.successors.none || another(d.successors.blocked, m)
}

// canBeReplaced reports whether a member that is to be replaced can be marked, or be taken down if it is.
func (d *decision) canBeReplaced(m *member) bool {
	s := &d.successors
	left := s.extra - 1
	switch {
	case left < 0 && !d.refillable(m, left):
		s.unfillable = append(s.unfillable, m.name)
		return false
	case m.MarkedForRemoval() && !m.mayServe():
		return true
	case another(s.failing, m) && !m.MarkedForRemoval():
		return false
	case s.unfinished && !m.MarkedForRemoval() && m.mayServe() && m.nominated != plan.MarkReasonHealing:
		return false
	case left >= 0, d.isProven(m), left+s.reserve >= 0 && d.isLate(s.booted, m):
		return true
	case m.nominated != plan.MarkReasonHealing && !m.MarkedForRemoval() && d.extraComesFirst():
		return false
	}
	return left >= -1
}

// refillable reports whether the places of the members that are removed now and of this member can be filled again. left is how many more
// members than needed remain, and negative.
func (d *decision) refillable(m *member, left int) bool {
	leaves := map[int32]bool{m.Ordinal: true}
	for i := range d.sets.members {
		if x := &d.sets.members[i]; x.leaves() && !x.duplicate {
			leaves[x.Ordinal] = true
		}
	}
	if d.facts.hasPersistentDisks() {
		return d.isFree(m.Ordinal, leaves, d.facts.takenBeside(leaves))
	}
	return d.freePlaces(-left, leaves) >= -left
}

// freePlaces counts the ordinals that new members can have once those with the ordinals in leaves are gone, up to most.
func (d *decision) freePlaces(most int, leaves map[int32]bool) (n int) {
	addresses := plan.AddressCount(&d.facts.Group.Spec)
	if addresses == math.MaxInt32 {
		return most
	}
	taken := d.facts.takenBeside(leaves)
	for ordinal := int32(0); int(ordinal) < addresses && n < most; ordinal++ {
		n += int(oneIf(d.isFree(ordinal, leaves, taken)))
	}
	return n
}

// isFree reports whether a new member can have an ordinal, and its addresses, once those with the ordinals in leaves are gone. A stray that holds
// the ordinal of a member that is one too many doesn't matter: no new member gets this ordinal.
func (d *decision) isFree(ordinal int32, leaves map[int32]bool, taken takenAddresses) bool {
	given, ok := plan.AddressesOf(&d.facts.Group.Spec, ordinal)
	held := d.sets.held[ordinal] && !(d.facts.hasPersistentDisks() && int(ordinal) >= d.facts.want)
	return ok && (leaves[ordinal] && !held || !d.taken(ordinal)) && !taken.ByOther(ordinal, plan.AddressText(given))
}

// takenBeside returns the addresses that are taken once the members with the ordinals in leaves are removed. In quarantine, a VM keeps its
// addresses.
func (f *facts) takenBeside(leaves map[int32]bool) takenAddresses {
	if f.policy.Quarantine > 0 {
		leaves = nil
	}
	return takenAddressesOf(slices.DeleteFunc(slices.Clone(f.State.VMs), func(vm plan.VM) bool { return leaves[vm.Ordinal] && vm.Quarantined.IsZero() }))
}

// extraComesFirst reports whether an extra member can be created before a member is removed.
func (d *decision) extraComesFirst() bool {
	if d.facts.policy.Surge == 0 || d.facts.hasPersistentDisks() {
		return false
	}
	_, ok := d.facts.nextPlace(d.pickOrdinals())
	return ok
}

// canBeRecreated reports whether a standby member can be removed to be created again, while so many standby members are missing. As long as
// another standby member of the present spec isn't fit, new ones may not become fit either.
func (d *decision) canBeRecreated(m *member, missing int) bool {
	s := &d.successors
	return !d.cloneBlocked(m) && !d.wouldBeInVain(m) && d.refillable(m, -1) && (m.MarkedForRemoval() || !another(s.failing, m) && !s.unfit && (missing <= 0 || d.isProven(m)))
}

// replacing is marking for a member that is replaced: the step first checks that vCenter has what the successor's clone needs.
func (f *facts) replacing(m *member, why plan.MarkReason, reason string) plan.Action {
	details, _ := f.details(m.Ordinal)
	successor := f.cloneOf(m.name, m.Ordinal, details, false)
	a := f.marking(m, why, reason)
	a.Args = plan.MarkArgs{Reason: why, Successor: &successor}
	return a
}

// reportFailedRehearsal notes why the successor of a member can't be cloned, if the step that was to mark the member has found that.
func (s *steps) reportFailedRehearsal(m *member) {
	if p := s.facts.Pending[m.name]; p.Unrehearsed() && p.Fault.NeedsOperator {
		s.cloneFaults = append(s.cloneFaults, plan.FaultOf{Who: m.name, Fault: p.Fault})
	}
}
