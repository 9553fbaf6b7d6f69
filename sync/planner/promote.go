package planner

import (
	"cmp"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// toPromote makes a standby member a member. It belongs to those that promote decides on, and to those that an operator powered on.
var toPromote = &concern{why: (*decision).whyPromote, next: (*steps).promoteStandby}

// whyPromote: a standby member that runs becomes a member, because once it is off again, nothing shows that it ran. (One with a mark is
// removed, or its mark is withdrawn first.)
func (d *decision) whyPromote(m *member) string {
	return textIf(m.Standby && m.Power == plan.PoweredOn && m.Reachable && !m.duplicate && !m.Marked, runningText)
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
		next.wants(toPromote, next.why)
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

// promotionText says why the n-th member that is promoted now is wanted.
func (d *decision) promotionText(n int) string {
	switch {
	case d.sets.ordinals+len(d.arriving)+n < d.facts.want:
		return d.sets.membersText()
	case slices.ContainsFunc(d.sets.members, func(m member) bool { return m.leaves() && m.nominated == plan.MarkReasonHealing }):
		return "instead of an unhealthy member"
	}
	return d.surgeText(n + 1)
}
