package planner

import (
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// fill decides what replaces missing members: VMs from quarantine, adopted VMs, standby members, or clones, in this order. It waits for standby
// members that will soon be fit. During an update the group can have maxSurge members more than replicas.
func (d *decision) fill() {
	keep, rolling, dying := d.sets.ordinals+len(d.arriving), false, 0
	for i := range d.sets.members {
		m := &d.sets.members[i]
		if m.nominated != "" || m.leaves() {
			keep--
		}
		dying += int(oneIf(m.leaves() && m.nominated == plan.WhyHealing && m.MarkedForRemoval()))
		rolling = rolling || m.nominated != "" && m.nominated != plan.WhyHealing
	}
	if d.facts.hasPersistentDisks() {
		d.clone(min(len(d.missingOrdinals()), d.facts.want-d.sets.ordinals-len(d.arriving))) // members from replicas on are removed first
		return
	}
	helpers := d.helpers()
	most := d.facts.want
	if rolling || helpers > 0 {
		most += d.facts.policy.Surge
	}
	elsewhere := d.clonedElsewhere()
	need, room := d.facts.want+helpers-keep-elsewhere, most-d.sets.ordinals-len(d.arriving)-elsewhere
	count := min(need, room)
	used := d.bringBack(count)
	used += d.adopt(max(0, min(count-used, d.facts.want-d.sets.ordinals-len(d.arriving)-elsewhere)))
	used += d.promote(min(need, room+dying) - used) // a successor of an unhealthy member does not wait until that member is gone
	d.clone(elsewhere + count - used - min(max(0, count-used), d.soonFit()))
}

// clonedElsewhere is how many members another replica is cloning: their clones here failed because of that. They are tried again until the members
// are there, and no other VM takes their place: the group would have a member too many. A clone that is left from a larger spec is none of them.
func (d *decision) clonedElsewhere() (n int) {
	most := d.facts.want + d.facts.policy.Surge + int(d.facts.Group.Spec.Standby)
	for _, p := range d.facts.Pending {
		n += int(oneIf(p.Op == plan.Clone && p.State != plan.Running && !p.Standby && p.Fault.Reason == plan.ReasonCloneRunning && int(p.Ordinal) < most && !d.taken(p.Ordinal)))
	}
	return n
}

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
	awaits := ""
	if fault := d.facts.sourceFault(); fault != nil {
		awaits = fault.Message
	} else if d.facts.State.Folder == "" {
		awaits = "the group's folder"
	}
	for _, m := range vacant {
		m.wants(needsClone, m.why)
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
		switch m.awaits = awaits; {
		case awaits != "":
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
		s.blockClone(plan.MemberName(s.facts.Group.Name, m.Ordinal), s.facts.addressesFault())
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
	if !slices.ContainsFunc(s.decision.free, func(m *member) bool { return m.blocked[cloning] }) {
		return
	}
	for _, m := range s.decision.free {
		m.blocked[cloning] = len(m.needs) > 0
	}
}

// cloneOf is the clone of a member.
func (f *facts) cloneOf(name string, ordinal int32, details *plan.Details, standby bool) plan.Action {
	return plan.Action{Op: plan.Clone, VM: name, Ordinal: ordinal, Generation: f.Group.Generation, Args: plan.CloneArgs{
		Folder: f.State.Folder, Template: f.State.Template.MoRef, Fingerprint: f.State.Template.Fingerprint,
		CPU: f.Group.Spec.CPU, MemoryMB: f.Group.MemoryMB(), Revision: f.revision, Standby: standby, Details: details}}
}

func (f *facts) addressesFault() plan.Fault {
	return plan.Fault{Reason: plan.ReasonAddressesExhausted, NeedsOperator: true, Message: fmt.Sprintf(
		"spec.networks has static addresses for %s, and none is free for this one: add addresses to the ranges (replicas, standby and update.maxSurge each need theirs); if only an update needs more, update.maxSurge 0 does, too",
		plan.Count(plan.AddressCount(&f.Group.Spec), "member"))}
}

// surgeText says why the members made now exceed replicas.
func (d *decision) surgeText(made int) string {
	extra, what := d.sets.ordinals+len(d.arriving)+made-d.facts.want, "the update"
	if d.helpers() > 0 {
		what = "the power cycles"
	}
	if extra == 1 {
		return "surge: one extra member during " + what
	}
	return fmt.Sprintf("surge: %d extra members during %s", extra, what)
}

// membersText says how many members exist and should exist. It is true until the new member exists.
func (s *sets) membersText() string {
	return fmt.Sprintf("too few members: %d of %d", s.ordinals, s.facts.want)
}

// blockClone notes why a member can't be cloned, until an operator acts or, while a content library is being read, for a moment.
func (s *steps) blockClone(who string, fault plan.Fault) {
	s.faults = append(s.faults, plan.FaultOf{Who: who, Fault: fault})
	if fault.NeedsOperator {
		s.cloneFaults = append(s.cloneFaults, plan.FaultOf{Who: who, Fault: fault})
	}
}

// sourceFault says why nothing can be cloned at all; nil if something can. No member is made without its user data: it
// would find none at its first boot.
func (f *facts) sourceFault() *plan.Fault {
	if f.Related.Fault != nil {
		return f.Related.Fault
	}
	return f.templateFault()
}

// picker returns a picker of ordinals that has counted no member.
func (d *decision) picker() *zonePicker {
	evenly := len(d.facts.Group.Spec.Placement.Zones)
	if d.facts.hasPersistentDisks() {
		evenly = 1
	}
	return newZonePicker(evenly, plan.AddressCount(&d.facts.Group.Spec), d.taken)
}

// pickOrdinals returns a picker that counts the members that are neither removed nor replaced.
func (d *decision) pickOrdinals() *zonePicker {
	p := d.picker()
	for i := range d.sets.members {
		if m := &d.sets.members[i]; m.nominated == "" && !m.leaves() && !m.duplicate {
			p.Count(m.Ordinal)
		}
	}
	for _, ordinal := range d.arriving {
		p.Count(ordinal)
	}
	return p
}

// createFolder creates the group's folder, and reports whether nothing blocks it.
func (s *steps) createFolder() bool {
	if !plan.MayCreateFolder(s.facts.Now, s.facts.Called, s.facts.FolderSeen) || s.facts.Blind || s.facts.later {
		s.waitCall = true
		return true
	}
	return s.act(plan.Action{Op: plan.CreateFolder, VM: plan.FolderKey, Args: &plan.Details{Spec: &s.facts.Group.Spec}, Reason: "members need the group's folder " + s.facts.Group.Namespace + "/" + s.facts.Group.Name})
}

// templateFault says why the template cannot be cloned from; nil if it can.
func (f *facts) templateFault() *plan.Fault {
	t, name := &f.State.Template, f.Group.Spec.Template
	switch {
	case len(t.Paths) == 1:
		return nil
	case len(t.Paths) > 1:
		return &plan.Fault{Reason: plan.ReasonTemplateAmbiguous, NeedsOperator: true, Message: fmt.Sprintf(
			"template %q is ambiguous: give the inventory path of one of %s", name, plan.AtMost(t.Paths, 5))}
	case t.Fault != nil:
		return t.Fault
	}
	there := "no templates there"
	if len(t.Others) > 0 {
		there = "templates there: " + plan.AtMost(t.Others, 10)
	}
	return &plan.Fault{Reason: plan.ReasonTemplateNotFound, NeedsOperator: true, Message: fmt.Sprintf(
		"template %q not found in datacenter %s; %s", name, t.Datacenter, there)}
}
