package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// toClone clones a member or a standby member.
var toClone = &concern{next: (*steps).makeClone}

// cloning: a member is made from the template.
var cloning = &plan.Activity{Says: "cloning %s", Noun: "member", ByDeletion: true, Updates: true}

// clone decides which ordinals are cloned.
func (d *decision) clone(count int) {
	if count <= 0 {
		return
	}
	missing, extra := max(0, d.facts.want-d.sets.ordinals-len(d.arriving)), d.surgeText(count)
	if d.facts.hasPersistentDisks() {
		missing = count
	}
	vacant := make([]*member, count)
	for n := range vacant {
		vacant[n] = d.vacancy(extra)
		if n < missing {
			vacant[n].why = d.sets.membersText()
		}
		vacant[n].missing = true
	}
	needsFolder := d.facts.State.Folder == "" && d.facts.sourceFault() == nil
	if !needsFolder && missing < count && d.facts.policy.MinAvailable < d.facts.want && !d.extraComesFirst() { // members that are removed free their addresses
		vacant = vacant[:missing]
	}
	d.place(vacant, d.pickOrdinals())
}

// place gives each vacancy the lowest free ordinal, as long as there are ordinals with addresses. The member is cloned once its source and the
// group's folder are known.
func (d *decision) place(vacant []*member, ordinals *zonePicker) {
	source, folder := d.facts.sourceFault() == nil, d.facts.State.Folder != ""
	for _, m := range vacant {
		m.wants(toClone, m.why)
	}
	for _, m := range vacant {
		ordinal, ok := d.facts.nextPlace(ordinals)
		for ok && d.assigned(ordinal) {
			ordinal, ok = d.facts.nextPlace(ordinals)
		}
		if !ok {
			m.Ordinal, m.unplaced = ordinal, true
			return
		}
		m.assign(d.facts.Group.Name, ordinal)
		switch {
		case !source:
			m.awaitsSource = true
		case !folder:
			m.awaits = "the group's folder"
		case m.Standby:
			d.standbyComing = append(d.standbyComing, ordinal)
		default:
			d.arriving = append(d.arriving, ordinal)
		}
	}
}

// makeClone clones a member or a standby member, after the group's folder is made.
func (s *steps) makeClone(m *member, why string) {
	switch fault := s.facts.sourceFault(); {
	case fault != nil:
		s.blockClone("", *fault)
	case s.facts.State.Folder == "":
		if unblocked := s.createFolder(); !m.Standby {
			m.begins(cloning, unblocked)
		}
	case m.unplaced && m.Standby && (s.decision.isUpdating() && !s.decision.update.waits || s.doing(leaving) > 0): // members that are removed free theirs
	case m.unplaced && s.decision.freesName(): // and its addresses
	case m.unplaced:
		s.blockClone(plan.MemberName(s.facts.Group.Name, m.Ordinal), needsOperator(plan.ReasonAddressesExhausted))
	case m.name != "":
		what := cloning
		if m.Standby {
			what = standingBy
		}
		details, _ := s.facts.details(m.Ordinal)
		clone := s.facts.cloneOf(m.name, m.Ordinal, details, m.Standby)
		clone.Reason = why
		m.begins(what, s.act(clone))
		if p := s.facts.Pending[m.name]; p.Op == plan.Clone && p.Fault.NeedsOperator {
			s.cloneFaults = append(s.cloneFaults, plan.FaultOf{Who: m.name, Fault: p.Fault})
		}
	}
}

// holdClones delays the other clones after one of them has failed.
func (s *steps) holdClones() {
	if !slices.ContainsFunc(s.decision.free, func(m *member) bool { return m.isBlocked(cloning) }) {
		return
	}
	for _, m := range s.decision.free {
		if len(m.needs) > 0 {
			m.block(cloning)
		}
	}
}

// blockClone notes why a member can't be cloned, until an operator acts or, while a content library is being read, for a moment.
func (s *steps) blockClone(who string, fault plan.Fault) {
	s.faults = append(s.faults, plan.FaultOf{Who: who, Fault: fault})
	if fault.NeedsOperator {
		s.cloneFaults = append(s.cloneFaults, plan.FaultOf{Who: who, Fault: fault})
	}
}
