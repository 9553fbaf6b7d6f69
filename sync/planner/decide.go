package planner

import (
	"cmp"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// decide finds a verdict for each VM and each free ordinal. The order matters, because later decisions depend on earlier ones: the reasons
// nominate members to be replaced (nominate.go), selectForRemoval selects among them, and chooseCycles among the members that are resized.
// From these follow each member's verdict and needs. Then come the replacements for members that are missing or removed (fill), the standby
// members, and the VMs in quarantine.
func decide(s *sets) *decision {
	d := &decision{facts: s.facts, sets: s, wake: wake{now: s.facts.Now}, free: slices.Clip(s.free), arriving: slices.Clip(s.arriving), standbyComing: slices.Clip(s.standbyComing)}
	if d.facts.blockedBy != nil || d.facts.Finalizing {
		return d
	}
	d.findUntaken()
	order := d.sets.victims()
	d.findSuccessors()
	for _, r := range d.reasons() {
		r.nominate(d, order)
	}
	d.update.tally(d.sets.members)
	d.selectForRemoval(order)
	d.chooseCycles(order)
	for i := range d.sets.members {
		m := &d.sets.members[i]
		d.withdrawing = d.withdrawing || m.isKept()
		d.remarking = d.remarking || d.facts.isMarking(m) && !m.leaves() && m.fate != powerCycled
		m.needs = d.needsOf(m)
		d.conclude(m)
	}
	d.fill()
	d.decideStandby()
	d.decideQuarantined()
	return d
}

// conclude decides a member's verdict, unless healing or a scale-in has done so. The first row that applies:
//
//	what                                    verdict    why, and what it waits for
//	--------------------------------------  ---------  ---------------------------------------------------------------
//	a duplicate                             Remove     another VM is the member
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
	case m.duplicate:
		m.decide(plan.Remove, duplicateReason(m))
	case m.nominated == plan.WhyHealing:
		m.becomes = plan.Heal
	case m.nominated != "":
		m.becomes = plan.Update
	case m.fate == held:
		m.decide(plan.Keep, "it "+m.differs())
		m.keptBy = d.whatHolds()
	case m.fate == waitsForStandbyMembers:
		m.decide(plan.Update, "it "+m.differs())
		m.keptBy = "the standby members, which are updated first"
	case m.resizes():
		m.decide(plan.Update, "resize: it "+m.resize)
		if d.wantsCycle(m) && m.fate != powerCycled {
			m.awaits = cmp.Or(m.awaits, otherMembers)
		}
	case len(m.needs) > 0:
		m.decide(plan.Update, m.needs[0].why)
		if m.needs[0].what == needsPower && d.facts.awaitsRules() {
			m.awaits = "the group's DRS rules"
		}
	default:
		m.becomes = plan.Keep
	}
}

// needs has a function for each need that returns why a member has it, or "" if it doesn't. The order matters: if a member has several
// needs, only the step for the first is taken.
var needs = [...]func(*decision, *member) (why string){
	needsUnmark:      (*decision).whyUnmark,
	needsPromotion:   (*decision).whyPromote,
	needsRemoval:     (*decision).whyRemove,
	needsAdoption:    (*decision).whyAdopt,
	needsReset:       (*decision).whyReset,
	needsSize:        (*decision).whyResize,
	needsData:        (*decision).whyData,
	needsPreparation: (*decision).whyPrepare,
	needsPower:       (*decision).whyPowerOn,
	needsTags:        (*decision).whyTags,
	needsDisks:       (*decision).whyDisks,
}

func (d *decision) needsOf(m *member) (all []need) {
	for n, because := range needs {
		if why := because(d, m); why != "" {
			all = append(all, need{what(n), why})
		}
	}
	return all
}

// whyUnmark: a mark that another replica set after this replica's newest hook call is kept until the next call. The other replica may have a
// newer spec, and otherwise the two would set and withdraw the mark in turns.
func (d *decision) whyUnmark(m *member) string {
	later := m.MarkedAt.After(d.facts.Called) && !m.MarkedAt.After(d.facts.Now.Add(plan.ClockSkew))
	return textIf(m.isKept() && !later, "it is no longer to be taken down, so its mark is withdrawn")
}

// whyPromote: a standby member that runs becomes a member, because once it is off again, nothing shows that it ran. (One with a mark is
// removed, or its mark is withdrawn first.)
func (d *decision) whyPromote(m *member) string {
	return textIf(m.Standby && m.Power == plan.PoweredOn && m.Reachable && !m.duplicate && !m.Marked, runningText)
}

func (d *decision) whyRemove(m *member) string {
	return textIf(m.leaves(), m.why)
}

// whyAdopt: a member that an operator moves or renames later is left there.
func (d *decision) whyAdopt(m *member) string {
	moves := m.VM.Folder == m.Former.Folder && m.VM.Folder != d.facts.State.Folder
	renames := m.VM.Name == m.Former.Name && m.VM.Name != m.name
	return textIf(m.Former.Name != "" && !m.duplicate && !m.leaves() && m.Reachable && (moves || renames), "adopted: moved to the group's folder, with a member's name")
}

func (d *decision) whyReset(m *member) string {
	return textIf(!m.leaves(), m.restart)
}

// whyResize: a suspended member is resumed first.
func (d *decision) whyResize(m *member) string {
	return textIf(m.resizes() && m.Power != plan.Suspended, "resize: it "+m.resize)
}

func (d *decision) whyData(m *member) string {
	return textIf(d.startable(m) && d.facts.lacksData(m), "it needs its persistent disks before its "+nextPowerOn(m))
}

func (d *decision) whyPrepare(m *member) string {
	return textIf(d.startable(m) && !d.facts.lacksData(m) && m.unprepared(), "it must be prepared before its "+nextPowerOn(m))
}

func (d *decision) whyPowerOn(m *member) string {
	switch {
	case !m.isOff() || d.startable(m) && (d.facts.lacksData(m) || m.unprepared()):
		return ""
	case m.Standby:
		return runningText
	}
	return m.Power.Text() + "; should be on"
}

// whyTags: after its first power-on, its tags and attributes change while it runs.
func (d *decision) whyTags(m *member) string {
	if !d.facts.preparable(m) || !m.isToMatchSpec() {
		return ""
	}
	return cmp.Or(textIf(m.Prepared != d.facts.prepared, "its tags or attributes differ from the spec"), d.facts.mayLackTags(m))
}

func (d *decision) whyDisks(m *member) string {
	return textIf(m.disks != "" && m.outdated == "" && m.nominated == "" && m.isToMatchSpec(), "disks: it "+m.disks)
}

// isKept reports whether the member has a mark, and is not to be taken down.
func (m *member) isKept() bool {
	return m.Marked && !m.leaves() && m.fate != powerCycled && !m.duplicate && m.Reachable
}

// nextPowerOn names the member's next power-on.
func nextPowerOn(m *member) string {
	if m.unprepared() {
		return "first power-on"
	}
	return "next power-on"
}

func textIf(is bool, text string) string {
	if is {
		return text
	}
	return ""
}
