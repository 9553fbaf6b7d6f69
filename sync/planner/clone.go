package planner

import (
	"fmt"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// fill replaces missing members: from quarantine, by adoption, by standby members, or by clones. Standby members that are about to be
// ready are waited for. During an update the group may have maxSurge
// members more than replicas.
func (v *steps) fill() {
	keep, rolling, dying := v.ordinals+len(v.arriving), false, 0
	for i := range v.members {
		m := &v.members[i]
		if m.retire != "" || m.leaves {
			keep--
		}
		dying += int(oneIf(m.leaves && m.retire == plan.WhyHealing && m.going()))
		rolling = rolling || m.retire != "" && m.retire != plan.WhyHealing
	}
	if v.dense() {
		v.clone(min(len(v.missingOrdinals()), v.want-v.ordinals-len(v.arriving))) // those beyond the last ordinal go first
		return
	}
	helpers := v.helpers()
	most := v.want
	if rolling || helpers > 0 {
		most += v.policy.Surge
	}
	need, room := v.want+helpers-keep, most-v.ordinals-len(v.arriving)
	count := min(need, room)
	used := v.bringBack(count)
	used += v.adopt(max(0, min(count-used, v.want-v.ordinals-len(v.arriving))))
	used += v.promote(min(need, room+dying) - used) // one that replaces an unhealthy member does not wait until that is gone
	v.clone(count - used - min(max(0, count-used), v.soonFit()))
}

// clone adds clones of members.
func (v *steps) clone(count int) {
	if count <= 0 {
		return
	}
	missing, extra := max(0, v.want-v.ordinals-len(v.arriving)), v.surgeText(count)
	if v.dense() {
		missing = count
	}
	vacant := make([]*member, count)
	for n := range vacant {
		vacant[n] = v.vacancy(extra)
		if n < missing {
			vacant[n].why = v.membersText()
		}
		vacant[n].missing = true
	}
	ordinals := v.pickOrdinals()
	if v.State.Folder == "" && v.sourceFault() == nil {
		goesOn := v.createFolder()
		for _, m := range vacant {
			m.begins(cloning, goesOn)
		}
		v.assignEach(vacant, ordinals, "the group's folder")
		return
	}
	if missing < count && v.policy.MinAvailable < v.want && !v.extraComesFirst() { // those that go give their addresses back
		vacant = vacant[:missing]
	}
	fresh, failed := v.cloneEach(vacant, ordinals)
	for _, m := range fresh {
		m.begins(cloning, failed == 0) // after a failure, the other clones wait
	}
}

// assignEach tells which ordinals are to have VMs, and what they wait for.
func (v *sets) assignEach(vacant []*member, ordinals *zonePicker, awaits string) {
	for _, m := range vacant {
		for {
			ordinal, ok := v.nextPlace(ordinals)
			if !ok {
				return
			}
			if !v.assigned(ordinal) {
				v.assign(m, ordinal)
				m.awaits = awaits
				break
			}
		}
	}
}

// cloneEach adds clones at the lowest free ordinals, and returns those that nothing blocks.
func (v *steps) cloneEach(vacant []*member, ordinals *zonePicker) (fresh []*member, failed int) {
	if len(vacant) == 0 {
		return nil, 0
	}
	if fault := v.sourceFault(); fault != nil {
		v.blockClone("", *fault)
		v.assignEach(vacant, ordinals, fault.Message)
		return nil, 0
	}
	if v.State.Folder == "" {
		v.createFolder()
		v.assignEach(vacant, ordinals, "the group's folder")
		return nil, 0
	}
	for _, m := range vacant {
		ordinal, ok := v.nextPlace(ordinals)
		name := plan.MemberName(v.Group.Name, ordinal)
		details, _ := v.details(ordinal)
		if !ok && m.Standby && v.updating()+v.doing(leaving) > 0 { // members that go give theirs back
			break
		}
		if !ok {
			v.blockClone(name, v.addressesFault())
			break
		}
		v.assign(m, ordinal)
		if m.Standby {
			v.standbyComing = append(v.standbyComing, ordinal)
		} else {
			v.arriving = append(v.arriving, ordinal)
		}
		clone := v.cloneOf(name, ordinal, details, m.Standby)
		clone.Reason = m.why
		if v.act(clone) {
			fresh = append(fresh, m)
		} else {
			failed++
		}
		if p := v.Pending[name]; p.Op == plan.Clone && p.Fault.NeedsOperator {
			v.cloneFaults = append(v.cloneFaults, named{Who: name, Fault: p.Fault})
		}
	}
	return fresh, failed
}

// cloneOf is the clone of a member.
func (v *facts) cloneOf(name string, ordinal int32, details *plan.Details, standby bool) plan.Action {
	return plan.Action{Op: plan.Clone, VM: name, Ordinal: ordinal, Generation: v.Group.Generation, Args: plan.CloneArgs{
		Folder: v.State.Folder, Template: v.State.Template.MoRef, Fingerprint: v.State.Template.Fingerprint,
		CPU: v.Group.Spec.CPU, MemoryMB: v.Group.MemoryMB(), Revision: v.revision, Standby: standby, Details: details}}
}

func (v *facts) addressesFault() plan.Fault {
	standby := ""
	if v.Group.Spec.Standby > 0 {
		standby = "; standby members need theirs, too"
	}
	return plan.Fault{Reason: plan.ReasonAddressesExhausted, NeedsOperator: true, Message: fmt.Sprintf(
		"spec.networks has static addresses for %d members (ordinals from 0 on), and none for this one that is not still another member's: add some to the ranges (updates need maxSurge more than replicas%s), or set update.maxSurge to 0",
		plan.AddressCount(&v.Group.Spec), standby)}
}

// surgeText says why the members made now exceed replicas.
func (v *sets) surgeText(made int) string {
	extra, what := v.ordinals+len(v.arriving)+made-v.want, "the update"
	if v.helpers() > 0 {
		what = "the power cycles"
	}
	if extra == 1 {
		return "surge: one extra member during " + what
	}
	return fmt.Sprintf("surge: %d extra members during %s", extra, what)
}

// blockClone notes why a member cannot be cloned: until an operator acts, or, as long as a library is being read, for a moment.
func (v *steps) blockClone(who string, fault plan.Fault) {
	v.faults = append(v.faults, named{Who: who, Fault: fault})
	if fault.NeedsOperator {
		v.cloneFaults = append(v.cloneFaults, named{Who: who, Fault: fault})
	}
}

// sourceFault says why nothing can be cloned at all; nil if something can. No member is made without its user data: it
// would find none at its first boot.
func (v *facts) sourceFault() *plan.Fault {
	if v.Related.Fault != nil {
		return v.Related.Fault
	}
	return v.templateFault()
}

// details returns the details of the member with that ordinal; false if the ranges have no address for it.
func (v *facts) details(ordinal int32) (*plan.Details, bool) {
	spec := &v.Group.Spec
	addresses, ok := plan.AddressesOf(spec, ordinal)
	return &plan.Details{Spec: spec, UserData: v.Related.UserData, Zone: plan.ZoneOf(spec, ordinal), Addresses: addresses,
		Home: plan.HomeOf(spec).String(), AddressText: plan.AddressText(addresses), Prepared: v.prepared, Held: v.heldDisks(ordinal), DisksOf: v.Group.TakesDisksOf()}, ok
}

// picker returns a picker of ordinals that has counted no member.
func (v *sets) picker() *zonePicker {
	evenly := len(v.Group.Spec.Placement.Zones)
	if v.dense() {
		evenly = 1
	}
	return newZonePicker(evenly, plan.AddressCount(&v.Group.Spec), v.taken)
}

// pickOrdinals returns a picker that counts the members that stay.
func (v *sets) pickOrdinals() *zonePicker {
	p := v.picker()
	for i := range v.members {
		if m := &v.members[i]; m.retire == "" && !m.leaves && !m.duplicate {
			p.Count(m.Ordinal)
		}
	}
	for _, ordinal := range v.arriving {
		p.Count(ordinal)
	}
	return p
}

// createFolder creates the group's folder, and reports whether nothing blocks it.
func (v *steps) createFolder() bool {
	if !plan.MayCreateFolder(v.Now, v.Called, v.FolderSeen) || v.Blind || v.later {
		v.waitCall = true
		return true
	}
	return v.act(plan.Action{Op: plan.CreateFolder, VM: plan.FolderKey, Args: &plan.Details{Spec: &v.Group.Spec}, Reason: "members need the group's folder " + v.Group.Namespace + "/" + v.Group.Name})
}

// templateFault says why the template cannot be cloned from; nil if it can.
func (v *facts) templateFault() *plan.Fault {
	t, name := &v.State.Template, v.Group.Spec.Template
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
