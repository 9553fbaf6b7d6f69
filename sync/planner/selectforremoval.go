package planner

import (
	"cmp"
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// victims returns the indices of the members in the order in which a scale-in removes them: members that were missing and that vCenter shows
// again, while the group has too many; those that are marked for removal; those in spec.scaleIn.remove; those that aren't ready, or whose
// guests are shutting down; those marked for a power cycle; those that differ from the spec; the others. Members in spec.scaleIn.protected that
// weren't missing come last, in the same order. Of equal members, one of the fullest zone comes first (keepZonesEven), then spec.scaleIn.order
// decides. With persistent disks, a scale-in removes only members whose ordinals are replicas or more (excess).
//
// withinCanary changes this order: updated members beyond update.canary come before those that differ. Updates, healing, power cycles and
// standby members use the same order. Duplicates are left out (duplicates.go). The comment of v1alpha1.ScaleIn and docs/fields.md describe the
// order, too.
func (s *sets) victims() []int { return s.orderOf(s.members) }

// orderOf is victims for a list of members or standby members.
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

// The last ranks of members that spec.scaleIn.protected doesn't name, and the number of all such ranks.
const (
	rankOutdated = 6
	rankUpdated  = 7
	ranks        = 8
)

func (s *sets) rank(m *member) int {
	rank := rankUpdated
	switch {
	case m.MarkedForRemoval():
		rank = 0
	case s.facts.Pending[m.name].Op == plan.Mark && s.facts.Pending[m.name].MarkReason != plan.MarkReasonPowerCycle: // its mark was being written
		rank = 1
	case slices.Contains(s.facts.policy.RemoveFirst, m.name):
		rank = 2
	case m.Marked && !m.ready: // taken down for its size
		rank = 3
	case !m.ready || m.halting():
		rank = 4
	case m.Marked: // to be taken down for its size
		rank = 5
	case m.differs() != "" || s.superseded(m):
		rank = rankOutdated
	}
	if s.facts.policy.Protects(m.name) {
		rank += ranks
	}
	if m.returned {
		rank -= 2 * ranks
	}
	return rank
}

// superseded reports whether a member was cloned from another version of the template than the newest member, while the present version is
// unknown, as just after the server started. An update that is in progress replaces such members, so a scale-in must not remove the new
// members that the update has created.
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

// byOrder compares members as spec.scaleIn.order says. HighestOrdinal, the default, also orders members of the same age.
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

// withinCanary returns the order, with updated members before outdated ones if more members are updated than update.canary allows. Otherwise
// an autoscaler that raises and lowers replicas would update all members, since new members are cloned from the new spec.
func (d *decision) withinCanary(order []int) []int {
	if d.facts.policy.Canary < 0 || d.update.canary != nil && d.update.canary.Back {
		return order
	}
	beyond := -d.facts.policy.Canary
	for _, i := range order {
		beyond += int(oneIf(d.sets.members[i].differs() == "" && !d.sets.members[i].MarkedForRemoval()))
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

// selectForRemoval decides which members are removed now, and how many more serving members can be taken down (d.slack).
//
//	member                     | serves                        | does not serve
//	---------------------------+-------------------------------+-------------------------------------------
//	has no successor           | kept (see successors)         | kept
//	healing replaces it        | -                             | removed
//	is to be replaced          | removed within maxUnavailable | removed while enough others might serve
//	is one too many            | removed within maxUnavailable | removed
//	is marked, and none above  | the mark is withdrawn         | the mark is withdrawn
//
// A ready member does not count as serving if it is halting, if a failed step may have taken it down, or if it has not been ready for
// minReadySeconds. Such a member is removed only while enough others serve.
func (d *decision) selectForRemoval(order []int) {
	order = d.withinCanary(order)
	d.dropReturned()
	serving, idle, retiring := d.countServing()
	slack := serving - d.facts.policy.MinAvailable
	shown := d.sets.ordinals - d.sets.ordinalsNotFound // a member that is not found counts as leaving: no other is removed instead of it
	spare := shown - d.facts.policy.MinAvailable - idle
	surplus := shown - retiring - d.sets.departing() - d.facts.want - d.beyond() - d.sets.unpromoted()
	if d.facts.hasPersistentDisks() {
		surplus = d.tooMany()
	}
	blocked, queued := false, 0
	scaleIn := func(m *member) string {
		if m.givenUp {
			return "it was given up while vCenter did not have it, and the group has enough members without it"
		}
		return fmt.Sprintf("scale-in: from %s to %d", plan.Count(d.sets.ordinals, "member"), d.facts.want)
	}
	canGo := func(m *member) bool { // a member that does not count as serving may serve all the same
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
		case replaced && m.nominated == plan.MarkReasonHealing:
			m.fate = replacedNow
		case replaced && m.serving:
			m.replaceIf(slack > 0)
		case replaced:
			m.replaceIf(spare > 0 && canGo(m) || m.Marked && !m.mayServe()) // a replacement that has powered its VM off is finished
			spare--
		case surplus > 0 && !d.facts.excess(m):
		case surplus > 0 && !blocked && canGo(m):
			m.fate = withdrawn
			surplus--
		case surplus > 0:
			blocked = true // members further down in the order must not be removed instead
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

// dropReturned drops the nominations of members that came back and are too many: those are removed without a successor. One that never ran, and can't,
// stays nominated, because an update waits for members that aren't nominated to become available.
func (d *decision) dropReturned() {
	for i := range d.sets.members {
		if m := &d.sets.members[i]; m.returned && m.nominated != "" && !d.facts.neverRuns(m) {
			m.awaits = ""
			m.nominate("", "")
			m.becomes = ""
		}
	}
}

// waitsForTurn notes what a nominated member waits for that is not replaced now.
func (d *decision) waitsForTurn(m *member) {
	switch {
	case m.nominated == "":
	case m.fate != replacedLater:
		m.awaits = anOperator
	case m.awaits == "":
		m.awaits = otherMembers
	}
}

// countServing counts the members that serve, those that do not although no step takes them down, and those that are to be replaced.
func (d *decision) countServing() (serving, idle, retiring int) {
	for i := range d.sets.members {
		m := &d.sets.members[i]
		switch {
		case m.duplicate:
			continue
		case m.serving:
			serving++
		case m.nominated == "" && !m.MarkedForRemoval():
			idle++ // may serve soon, or never
		}
		if m.nominated != "" && !d.isIrreplaceable(m) {
			retiring++
		}
	}
	return serving, idle, retiring
}

// departing counts the duplicates that were marked for removal before they were duplicates: no other member is removed instead of them.
func (s *sets) departing() (n int) {
	for i := range s.members {
		m := &s.members[i]
		n += int(oneIf(m.duplicate && m.MarkedForRemoval() && m.MarkReason != plan.MarkReasonDuplicate))
	}
	return n
}
