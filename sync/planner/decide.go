package planner

import (
	"cmp"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// decision is what becomes of each VM, and of each ordinal without a VM. It is empty while the group is blocked or being deleted.
type decision struct {
	facts *facts
	sets  *sets
	// free, arriving and standbyComing begin as those of sets, and grow by the ordinals that the decision gives to new members.
	free                    []*member
	arriving, standbyComing []int32
	slack                   int // how many more serving members can be taken down; negative while fewer serve than promised
	update                  update
	healing                 healing
	// withdrawing: some members have a mark that is to be withdrawn. Until it is, no other serving member is taken down: another replica may
	// have withdrawn it already, and be taking down a member that this replica keeps.
	withdrawing bool
	// remarking: this replica is writing a mark that it will withdraw, as after an edit of the spec: the member is not to be taken down.
	remarking  bool
	successors successors
	incorrect  []named // entries of spec.replace and spec.adopt that an operator has to correct
	// untaken are the members whose guests have not taken the addresses that they were given.
	untaken  []named
	wake     wake
	adoption []string // why entries of spec.adopt are not carried out
}

// decide finds a verdict for each VM and each free ordinal. The order matters, because later decisions depend on earlier ones: the reasons
// nominate members to be replaced (nominate.go), selectForRemoval selects among them, and chooseCycles among the members that are resized.
// From these follow each member's verdict and needs. Then come the replacements for members that are missing or removed (fill), the standby
// members, and the VMs in quarantine.
func decide(s *sets) *decision {
	d := &decision{facts: s.facts, sets: s, wake: wake{now: s.facts.Now}, free: slices.Clip(s.free), arriving: slices.Clip(s.arriving), standbyComing: slices.Clip(s.standbyComing)}
	if d.facts.blockedBy != nil || d.facts.Finalizing {
		return d
	}
	d.untaken = d.findUntaken()
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

// need is something that is to be done for a VM or an ordinal, and why. The next step follows from the need and the VM's current state
// (nextSteps).
type need struct {
	what
	why string
}

type what int

const (
	needsUnmark      what = iota // it has a mark, and is not to be taken down
	needsPromotion               // a standby member is to become a member, or an operator powered it on
	needsRemoval                 // it is to be removed
	needsAdoption                // it has its former folder or name
	needsReset                   // healing restarts it
	needsSize                    // it has another size
	needsData                    // it is off, and has to get its persistent disks first
	needsPreparation             // it is off, and was never prepared
	needsPower                   // it is off
	needsTags                    // it was prepared for another spec
	needsDisks                   // it has other disks
	needsDiscard                 // of a standby member: it is to be removed
	needsUpkeep                  // of a standby member: it differs from the spec in what changes in place
	needsReturn                  // of a VM in quarantine: it is to be a member again
	needsQuarantine              // of a VM in quarantine: it is not where it is to be kept
	needsDestruction             // of a VM in quarantine: its time is over
	needsAdopting                // of an ordinal: a VM that spec.adopt names gets it
	needsClone                   // of an ordinal: its VM is to be cloned
	allNeeds         = iota
)

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
	return textIf(m.Prepared != d.facts.prepared && d.facts.preparable(m) && m.isToMatchSpec(), "its tags or attributes differ from the spec")
}

func (d *decision) whyDisks(m *member) string {
	return textIf(m.disks != "" && m.outdated == "" && m.nominated == "" && m.isToMatchSpec(), "disks: it "+m.disks)
}

// isToMatchSpec reports whether steps bring the member in line with the spec: it is not removed, and no step takes it down.
func (m *member) isToMatchSpec() bool { return !m.leaves() && !m.Marked && !m.duplicate && m.Reachable }

// isOff reports whether the member is off, and should be on.
func (m *member) isOff() bool { return m.isToMatchSpec() && !m.contested && m.Power != plan.PoweredOn }

// isKept reports whether the member has a mark, and is not to be taken down.
func (m *member) isKept() bool {
	return m.Marked && !m.leaves() && m.fate != powerCycled && !m.duplicate && m.Reachable
}

// startable reports whether a member that is off can be powered on once it is prepared. Others are removed.
func (d *decision) startable(m *member) bool {
	return m.isOff() && (!m.unprepared() || d.facts.preparable(m))
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

// taken reports whether no new member can have the ordinal: a member has it (whether or not vCenter shows it), or a standby member, or a VM that
// is being cloned; or a VM on its way to quarantine still has its name.
func (d *decision) taken(ordinal int32) bool {
	return d.sets.has(ordinal) || d.sets.isNotFound(ordinal) || d.isStandby(ordinal) || slices.Contains(d.arriving, ordinal) ||
		slices.ContainsFunc(d.sets.quarantined, func(q member) bool { return q.Ordinal == ordinal && d.facts.blocksName(&q) })
}
