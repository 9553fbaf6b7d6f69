package planner

import (
	"fmt"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// fill replaces missing members: from quarantine, by adoption, by standby members, or by clones. Standby members that are about to be
// ready are waited for. During an update the group can have maxSurge
// members more than replicas.
func (s *steps) fill() {
	keep, rolling, dying := s.ordinals+len(s.arriving), false, 0
	for i := range s.members {
		m := &s.members[i]
		if m.retire != "" || m.leaves {
			keep--
		}
		dying += int(oneIf(m.leaves && m.retire == plan.WhyHealing && m.going()))
		rolling = rolling || m.retire != "" && m.retire != plan.WhyHealing
	}
	if s.dense() {
		s.clone(min(len(s.missingOrdinals()), s.want-s.ordinals-len(s.arriving))) // those beyond the last ordinal go first
		return
	}
	helpers := s.helpers()
	most := s.want
	if rolling || helpers > 0 {
		most += s.policy.Surge
	}
	need, room := s.want+helpers-keep, most-s.ordinals-len(s.arriving)
	count := min(need, room)
	used := s.bringBack(count)
	used += s.adopt(max(0, min(count-used, s.want-s.ordinals-len(s.arriving))))
	used += s.promote(min(need, room+dying) - used) // one that replaces an unhealthy member does not wait until that is gone
	s.clone(count - used - min(max(0, count-used), s.soonFit()))
}

// clone adds clones of members.
func (s *steps) clone(count int) {
	if count <= 0 {
		return
	}
	missing, extra := max(0, s.want-s.ordinals-len(s.arriving)), s.surgeText(count)
	if s.dense() {
		missing = count
	}
	vacant := make([]*member, count)
	for n := range vacant {
		vacant[n] = s.vacancy(extra)
		if n < missing {
			vacant[n].why = s.membersText()
		}
		vacant[n].missing = true
	}
	ordinals := s.pickOrdinals()
	if s.State.Folder == "" && s.sourceFault() == nil {
		goesOn := s.createFolder()
		for _, m := range vacant {
			m.begins(cloning, goesOn)
		}
		s.assignEach(vacant, ordinals, "the group's folder")
		return
	}
	if missing < count && s.policy.MinAvailable < s.want && !s.extraComesFirst() { // those that go give their addresses back
		vacant = vacant[:missing]
	}
	fresh, failed := s.cloneEach(vacant, ordinals)
	for _, m := range fresh {
		m.begins(cloning, failed == 0) // after a failure, the other clones wait
	}
}

// assignEach tells which ordinals are to have VMs, and what they wait for.
func (s *sets) assignEach(vacant []*member, ordinals *zonePicker, awaits string) {
	for _, m := range vacant {
		for {
			ordinal, ok := s.nextPlace(ordinals)
			if !ok {
				return
			}
			if !s.assigned(ordinal) {
				s.assign(m, ordinal)
				m.awaits = awaits
				break
			}
		}
	}
}

// cloneEach adds clones at the lowest free ordinals, and returns those that nothing blocks.
func (s *steps) cloneEach(vacant []*member, ordinals *zonePicker) (fresh []*member, failed int) {
	if len(vacant) == 0 {
		return nil, 0
	}
	if fault := s.sourceFault(); fault != nil {
		s.blockClone("", *fault)
		s.assignEach(vacant, ordinals, fault.Message)
		return nil, 0
	}
	if s.State.Folder == "" {
		s.createFolder()
		s.assignEach(vacant, ordinals, "the group's folder")
		return nil, 0
	}
	for _, m := range vacant {
		ordinal, ok := s.nextPlace(ordinals)
		name := plan.MemberName(s.Group.Name, ordinal)
		details, _ := s.details(ordinal)
		if !ok && m.Standby && s.updating()+s.doing(leaving) > 0 { // members that go give theirs back
			break
		}
		if !ok {
			s.blockClone(name, s.addressesFault())
			break
		}
		s.assign(m, ordinal)
		if m.Standby {
			s.standbyComing = append(s.standbyComing, ordinal)
		} else {
			s.arriving = append(s.arriving, ordinal)
		}
		clone := s.cloneOf(name, ordinal, details, m.Standby)
		clone.Reason = m.why
		if s.act(clone) {
			fresh = append(fresh, m)
		} else {
			failed++
		}
		if p := s.Pending[name]; p.Op == plan.Clone && p.Fault.NeedsOperator {
			s.cloneFaults = append(s.cloneFaults, named{Who: name, Fault: p.Fault})
		}
	}
	return fresh, failed
}

// cloneOf is the clone of a member.
func (f *facts) cloneOf(name string, ordinal int32, details *plan.Details, standby bool) plan.Action {
	return plan.Action{Op: plan.Clone, VM: name, Ordinal: ordinal, Generation: f.Group.Generation, Args: plan.CloneArgs{
		Folder: f.State.Folder, Template: f.State.Template.MoRef, Fingerprint: f.State.Template.Fingerprint,
		CPU: f.Group.Spec.CPU, MemoryMB: f.Group.MemoryMB(), Revision: f.revision, Standby: standby, Details: details}}
}

func (f *facts) addressesFault() plan.Fault {
	standby := ""
	if f.Group.Spec.Standby > 0 {
		standby = "; standby members need theirs, too"
	}
	return plan.Fault{Reason: plan.ReasonAddressesExhausted, NeedsOperator: true, Message: fmt.Sprintf(
		"spec.networks has static addresses for %d members (ordinals from 0 on), and none for this one that is not still another member's: add some to the ranges (updates need maxSurge more than replicas%s), or set update.maxSurge to 0",
		plan.AddressCount(&f.Group.Spec), standby)}
}

// surgeText says why the members made now exceed replicas.
func (s *sets) surgeText(made int) string {
	extra, what := s.ordinals+len(s.arriving)+made-s.want, "the update"
	if s.helpers() > 0 {
		what = "the power cycles"
	}
	if extra == 1 {
		return "surge: one extra member during " + what
	}
	return fmt.Sprintf("surge: %d extra members during %s", extra, what)
}

// blockClone notes why a member cannot be cloned: until an operator acts, or, as long as a library is being read, for a moment.
func (s *steps) blockClone(who string, fault plan.Fault) {
	s.faults = append(s.faults, named{Who: who, Fault: fault})
	if fault.NeedsOperator {
		s.cloneFaults = append(s.cloneFaults, named{Who: who, Fault: fault})
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

// details returns the details of the member with that ordinal; false if the ranges have no address for it.
func (f *facts) details(ordinal int32) (*plan.Details, bool) {
	spec := &f.Group.Spec
	addresses, ok := plan.AddressesOf(spec, ordinal)
	return &plan.Details{Spec: spec, UserData: f.Related.UserData, Zone: plan.ZoneOf(spec, ordinal), Addresses: addresses,
		Home: plan.HomeOf(spec).String(), AddressText: plan.AddressText(addresses), Prepared: f.prepared, KnownDisks: f.knownDisks(ordinal), DisksOf: f.Group.TakesDisksOf()}, ok
}

// picker returns a picker of ordinals that has counted no member.
func (s *sets) picker() *zonePicker {
	evenly := len(s.Group.Spec.Placement.Zones)
	if s.dense() {
		evenly = 1
	}
	return newZonePicker(evenly, plan.AddressCount(&s.Group.Spec), s.taken)
}

// pickOrdinals returns a picker that counts the members that stay.
func (s *sets) pickOrdinals() *zonePicker {
	p := s.picker()
	for i := range s.members {
		if m := &s.members[i]; m.retire == "" && !m.leaves && !m.duplicate {
			p.Count(m.Ordinal)
		}
	}
	for _, ordinal := range s.arriving {
		p.Count(ordinal)
	}
	return p
}

// createFolder creates the group's folder, and reports whether nothing blocks it.
func (s *steps) createFolder() bool {
	if !plan.MayCreateFolder(s.Now, s.Called, s.FolderSeen) || s.Blind || s.later {
		s.waitCall = true
		return true
	}
	return s.act(plan.Action{Op: plan.CreateFolder, VM: plan.FolderKey, Args: &plan.Details{Spec: &s.Group.Spec}, Reason: "members need the group's folder " + s.Group.Namespace + "/" + s.Group.Name})
}

// templateFault says why the template cannot be cloned from; nil if it can.
func (f *facts) templateFault() *plan.Fault {
	t, name := &f.State.Template, f.Group.Spec.Template
	switch {
	case len(t.Paths) == 1:
		return nil
	case len(t.Paths) > 1:
		return &plan.Fault{Reason: plan.ReasonTemplateAmbiguous, NeedsOperator: true, Message: fmt.Sprintf(
			"template %q is ambiguous: give the inventory path of one of %s", name, strings.Join(t.Paths, ", "))}
	case t.Fault != nil:
		return t.Fault
	}
	there := "no templates there"
	if len(t.Others) > 0 {
		there = "templates there: " + strings.Join(t.Others, ", ")
	}
	return &plan.Fault{Reason: plan.ReasonTemplateNotFound, NeedsOperator: true, Message: fmt.Sprintf(
		"template %q not found in datacenter %s; %s", name, t.Datacenter, there)}
}
