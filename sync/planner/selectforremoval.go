package planner

import (
	"cmp"
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// victims returns the indices of the members that can be removed, in the order in which they go: the marked first, then those that
// spec.scaleIn.remove names, the unhealthy, the outdated, the others, and the protected last; equals in the order of spec.scaleIn.order.
// Those that came back and are too many go before all others, in the same order.
// Updates, healing, changes of size and standby members follow the same order.
// withinCanary changes that where a canary bounds updates. Duplicates are left out: see duplicates.go.
func (s *sets) victims() []int { return s.orderOf(s.members) }

// orderOf is victims, among members or standby members.
func (s *sets) orderOf(members []member) []int {
	var order []int
	rank, ordinals := make([]int, len(members)), make([]int32, len(members))
	for i := range members {
		ordinals[i] = members[i].Ordinal
		if m := &members[i]; !m.duplicate {
			order = append(order, i)
			rank[i] = s.rank(m)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank[a], rank[b]), s.facts.byOrder(&members[a], &members[b]))
	})
	keepZonesEven(len(s.facts.Group.Spec.Placement.Zones), ordinals, order, rank)
	return order
}

// The last ranks of members that nobody protects.
const (
	rankOutdated = 6
	rankUpdated  = 7
)

func (s *sets) rank(m *member) int {
	rank := rankUpdated
	switch {
	case m.markedForRemoval():
		rank = 0
	case s.facts.Pending[m.name].Op == plan.Mark && s.facts.Pending[m.name].Why != plan.WhyPowerCycle: // probably chosen
		rank = 1
	case slices.Contains(s.facts.policy.RemoveFirst, m.name):
		rank = 2
	case m.Marked && !m.ready: // taken down for its size
		rank = 3
	case !m.ready || m.halting():
		rank = 4
	case m.Marked: // about to be
		rank = 5
	case m.differs() != "" || s.superseded(m):
		rank = rankOutdated
	}
	if s.facts.policy.Protects(m.name) {
		rank += 8
	}
	if m.returned {
		rank -= 16
	}
	return rank
}

// superseded reports whether a member was cloned from another version of the template than the newest member, while nobody knows the
// present version, as when a server has just started: an update that is in progress replaces those, so what is one too many must not be
// the member that the update has made.
func (s *sets) superseded(m *member) bool {
	if !s.facts.policy.ReplaceOnTemplate || s.facts.State.Template.Fingerprint != "" || m.Fingerprint == "" {
		return false
	}
	newest := m
	for i := range s.members {
		if o := &s.members[i]; !o.duplicate && o.Revision == m.Revision && o.Fingerprint != "" && o.Created.After(newest.Created) {
			newest = o
		}
	}
	return newest.Fingerprint != m.Fingerprint
}

// byOrder compares members as spec.scaleIn.order says; HighestOrdinal, the default, also decides between members of one age.
func (f *facts) byOrder(x, y *member) int {
	highestOrdinal := cmp.Compare(y.Ordinal, x.Ordinal)
	switch f.policy.Order {
	case v1alpha1.ScaleInOldest:
		return cmp.Or(x.Created.Compare(y.Created), highestOrdinal)
	case v1alpha1.ScaleInNewest:
		return cmp.Or(y.Created.Compare(x.Created), highestOrdinal)
	}
	return highestOrdinal
}

// withinCanary returns the order with updated members before outdated ones where more are updated than update.canary allows. Otherwise
// replicas that an autoscaler raises and lowers would update all members, since new members are clones of the new spec.
func (d *decision) withinCanary(order []int) []int {
	if d.facts.policy.Canary < 0 || d.canary != nil && d.canary.Back {
		return order
	}
	beyond := -d.facts.policy.Canary
	for _, i := range order {
		beyond += int(oneIf(d.sets.members[i].differs() == "" && !d.sets.members[i].markedForRemoval()))
	}
	first := slices.IndexFunc(order, func(i int) bool { return d.sets.rank(&d.sets.members[i]) == rankOutdated })
	if beyond <= 0 || first < 0 {
		return order
	}
	early, late := slices.Clone(order[:first]), []int(nil)
	for _, i := range order[first:] {
		if beyond > 0 && d.sets.rank(&d.sets.members[i]) == rankUpdated {
			early = append(early, i)
			beyond--
		} else {
			late = append(late, i)
		}
	}
	return append(early, late...)
}

// selectForRemoval decides which members go now, and how many more serving members can be taken down (d.slack).
//
//	member                     | serves                        | does not serve
//	---------------------------+-------------------------------+-------------------------------------------
//	has no successor           | stays (see successors)        | stays
//	healing replaces it        | -                             | goes
//	is to be replaced          | goes within maxUnavailable    | goes while enough others might serve
//	is one too many            | goes within maxUnavailable    | goes
//	is marked, and none above  | the mark is withdrawn         | the mark is withdrawn
//
// A ready member that is halting, that a failed step may have taken down, or that has not been ready for long enough does
// not count as serving, and goes only while enough others serve.
func (d *decision) selectForRemoval(order []int) {
	order = d.withinCanary(order)
	d.dropReturned()
	serving, idle, retiring := d.countServing()
	slack := serving - d.facts.policy.MinAvailable
	shown := d.sets.ordinals - d.sets.ordinalsNotFound // one that is not found counts as leaving: nothing goes instead of it
	spare := shown - d.facts.policy.MinAvailable - idle
	surplus := shown - retiring - d.sets.departing() - d.facts.want - d.beyond()
	if d.facts.hasPersistentDisks() {
		surplus = d.tooMany()
	}
	blocked, queued := false, 0
	scaleIn := func(m *member) string {
		if m.givenUp {
			return "it was given up while vCenter did not have it, and the group has its members without it"
		}
		return fmt.Sprintf("scale-in: from %s to %d", count(d.sets.ordinals, "member"), d.facts.want)
	}
	canGo := func(m *member) bool { // one that does not count as serving may serve all the same
		return !m.mayServe() || m.serving && slack > 0 || !m.serving && slack >= 0
	}
	for _, i := range order {
		m := &d.sets.members[i]
		replaced := m.nominated != "" && !d.isIrreplaceable(m)
		if replaced {
			m.fate = replacedLater
		}
		switch {
		case replaced && !d.canBeReplaced(m):
			m.awaits = aSuccessor
		case replaced && m.nominated == plan.WhyHealing:
			m.fate = replacedNow
		case replaced && m.serving:
			m.replaceIf(slack > 0)
		case replaced:
			m.replaceIf(spare > 0 && canGo(m) || m.Marked && !m.mayServe()) // what was powered off is finished
			spare--
		case surplus > 0 && !d.facts.excess(m):
		case surplus > 0 && !blocked && canGo(m):
			m.fate = withdrawn
			surplus--
		case surplus > 0:
			blocked = true // members further down in the order must not go instead
			if queued++; queued <= surplus {
				m.decide(plan.Remove, scaleIn(m))
				m.awaits = otherMembers
			}
		}
		if !m.leaves() {
			d.waitsForTurn(m)
			continue
		}
		d.successors.extra--
		slack -= int(oneIf(m.serving))
		if m.fate == withdrawn {
			m.decide(plan.Remove, scaleIn(m))
		}
	}
	d.slack = slack
}

// replaceIf replaces a member now if it can be taken down, and else later.
func (m *member) replaceIf(canGo bool) {
	if canGo {
		m.fate = replacedNow
	}
}

// dropReturned drops the nominations of members that came back and are too many: those are removed without a successor.
func (d *decision) dropReturned() {
	for i := range d.sets.members {
		if m := &d.sets.members[i]; m.returned && m.nominated != "" {
			m.awaits = ""
			m.nominate("", "")
			m.becomes = ""
		}
	}
}

// waitsForTurn notes what a member waits for that is to be replaced, and does not go now.
func (d *decision) waitsForTurn(m *member) {
	switch {
	case m.nominated == "":
	case m.fate != replacedLater:
		m.awaits = anOperator
	case m.awaits == "":
		m.awaits = otherMembers
	}
}

// countServing counts the members that serve, that do not although nothing takes them down, and that are to be replaced.
func (d *decision) countServing() (serving, idle, retiring int) {
	for i := range d.sets.members {
		m := &d.sets.members[i]
		switch {
		case m.duplicate:
			continue
		case m.serving:
			serving++
		case m.nominated == "" && !m.markedForRemoval():
			idle++ // might serve soon, or never: not counted upon
		}
		if m.nominated != "" && !d.isIrreplaceable(m) {
			retiring++
		}
	}
	return serving, idle, retiring
}

// departing counts the duplicates that were chosen to go before they were duplicates: nothing else goes instead of them.
func (s *sets) departing() (n int) {
	for i := range s.members {
		m := &s.members[i]
		n += int(oneIf(m.duplicate && m.markedForRemoval() && m.Why != plan.WhyDuplicate))
	}
	return n
}

// membersText says how many members exist and should exist, as in "too few members: 2 of 3", which stays true while one is added.
func (s *sets) membersText() string {
	return fmt.Sprintf("too few members: %d of %d", s.ordinals, s.facts.want)
}

// isKept reports whether the member is marked, and stays.
func (m *member) isKept() bool {
	return m.Marked && !m.leaves() && m.fate != powerCycled && !m.duplicate && m.Reachable
}

// unmark withdraws the mark of a member that stays: two replicas of the server may have marked at once, or the spec has changed.
// While any such mark exists, no serving member is taken down, because the choice is still open.
func (s *steps) unmark(m *member, why string) {
	s.act(plan.Action{Op: plan.Unmark, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Generation: s.facts.Group.Generation, Reason: why})
}

// removeChosen marks a member that goes, and removes one that is marked.
func (s *steps) removeChosen(m *member, why string) {
	unblocked := true
	switch {
	case !m.Reachable, !m.markedForRemoval() && !s.canMark(m):
	case !m.markedForRemoval() && m.fate == replacedNow:
		unblocked = s.act(s.facts.replacing(m, m.nominated, why))
		s.reportFailedRehearsal(m)
	case !m.markedForRemoval():
		to := plan.WhyScaleIn
		if m.givenUp { // it is kept: see duplicates.go
			to = plan.WhyDuplicate
		}
		unblocked = s.act(s.facts.marking(m, to, why))
	default:
		unblocked = s.remove(m, chosen, why)
	}
	m.begins(leaving, unblocked)
}

// announcing reports whether this replica is writing a mark. Another replica may act on it already, and this one has not yet
// looked at all members after it: until then it takes down no serving member by another replica's mark.
func (f *facts) announcing() bool {
	for _, p := range f.Pending {
		if p.Op == plan.Mark && p.State == plan.Running {
			return true
		}
	}
	return false
}

// isMarking reports whether this replica is writing the mark of a member.
func (f *facts) isMarking(m *member) bool {
	p := f.Pending[m.name]
	return p.Op == plan.Mark && p.State == plan.Running && (p.MoRef == "" || p.MoRef == m.MoRef)
}

// canMark reports whether a member that could serve can be marked. From its mark on, its endpoints are terminating, and so are those of
// a member whose mark is withdrawn, until it is: both at once would be more than the promise allows.
func (s *steps) canMark(m *member) bool {
	if !m.mayServe() || s.facts.isMarking(m) || !s.decision.withdrawing && !s.decision.remarking {
		return true
	}
	m.waits = &choice
	return false
}

func (f *facts) marking(m *member, why plan.Why, reason string) plan.Action {
	return plan.Action{Op: plan.Mark, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Args: plan.MarkArgs{Why: why}, Generation: f.Group.Generation, Reason: reason}
}
