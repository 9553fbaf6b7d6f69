package planner

import (
	"cmp"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// decide finds a verdict for each VM and each free ordinal. The order matters, because later decisions depend on earlier ones: the reasons
// nominate members to be replaced (nominate.go), selectForRemoval selects among them, and chooseCycles among the members that are resized.
// From these follow each member's verdict and concerns. Then come the replacements for members that are missing or removed (fill), the standby
// members, and the VMs in quarantine.
func decide(s *sets) *decision {
	d := &decision{facts: s.facts, sets: s, wake: wake{now: s.facts.Now}, free: slices.Clip(s.free), arriving: slices.Clip(s.arriving), standbyComing: slices.Clip(s.standbyComing)}
	if d.facts.blockedBy != nil || d.facts.Finalizing {
		return d
	}
	d.findUntaken()
	order := d.sets.victims()
	d.findSuccessors()
	for _, n := range d.nominators() {
		n.nominate(d, order)
	}
	d.update.tally(d.sets.members)
	d.selectForRemoval(order)
	d.chooseCycles(order)
	d.decideDuplicates()
	for i := range d.sets.members {
		m := &d.sets.members[i]
		d.withdrawing = d.withdrawing || m.isKept()
		d.remarking = d.remarking || d.facts.isMarking(m) && !m.leaves() && m.fate != powerCycled
		m.needs = append(m.needs, d.concernsOf(m)...)
		d.conclude(m)
	}
	d.fill()
	d.decideStandby()
	d.decideQuarantined()
	d.decideRestamps()
	return d
}

// conclude decides a member's verdict, unless it is a duplicate, or healing or a scale-in has done so. The first row that applies:
//
//	what                                    verdict    why, and what it waits for
//	--------------------------------------  ---------  ---------------------------------------------------------------
//	nominated by healing                    Heal       its unreadiness; its turn, a successor, a precondition
//	nominated for another reason            Update     how it differs; the same
//	differs, and is held                    Keep       how; the field that holds it
//	differs, and waits for standby members  Update     how; the standby members
//	is resized in place                     Update     how; a precondition, or other members to be available
//	needs anything else                     Update     why it needs that
//	any other                               Keep       -
func (d *decision) conclude(m *member) {
	switch {
	case m.becomes != "":
	case m.nominated == plan.MarkReasonHealing:
		m.becomes = plan.Heal
	case m.nominated != "":
		m.becomes = plan.Update
	case m.fate == held:
		m.decide(plan.Keep, "it "+m.differs())
		m.kept = true
	case m.fate == waitsForStandbyMembers:
		m.decide(plan.Update, "it "+m.differs())
		m.keptBy = "the standby members, which are updated first"
	case m.resizes():
		m.decide(plan.Update, "resize: it "+m.resize)
		if d.wantsCycle(m) && m.fate != powerCycled {
			m.awaits = cmp.Or(m.awaits, otherMembers)
		}
	case len(m.needs) > 0:
		m.decide(plan.Update, m.needs[0].because)
		if awaits := m.needs[0].awaits; awaits != nil {
			m.awaits = awaits(d, m)
		}
	default:
		m.becomes = plan.Keep
	}
}
