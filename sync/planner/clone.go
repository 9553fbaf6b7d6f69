package planner

import (
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// fill replaces missing members: from quarantine, by adoption, or by clones. During an update the group may have maxSurge
// members more than replicas.
func (v *view) fill() {
	keep, rolling := v.ordinals+len(v.arriving), false
	for i := range v.members {
		m := &v.members[i]
		if m.retire != "" || m.leaves {
			keep--
		}
		rolling = rolling || m.retire != "" && m.retire != plan.WhyHealing
	}
	helpers := v.helpers()
	most := v.want
	if rolling || helpers > 0 {
		most += v.policy.Surge
	}
	count := min(v.want+helpers-keep, most-v.ordinals-len(v.arriving))
	count -= v.bringBack(count)
	count -= v.adopt(max(0, min(count, v.want-v.ordinals-len(v.arriving))))
	v.clone(count)
}

// clone adds clones at the lowest free ordinals.
func (v *view) clone(count int) {
	if count <= 0 {
		return
	}
	v.missing = count
	if fault := v.sourceFault(); fault != nil {
		v.blockClone("", *fault)
		return
	}
	if v.State.Folder == "" {
		if v.createFolder() {
			v.cloning += count
		}
		return
	}
	missing, extra := max(0, v.want-v.ordinals-len(v.arriving)), v.surgeText(count)
	ordinals, held := v.pickOrdinals(), v.heldAddresses()
	fresh, failed := 0, 0
	for n := range count {
		why := v.membersText()
		if n >= missing {
			why = extra
		}
		ordinal := ordinals.pick()
		name := plan.MemberName(v.Group.Name, ordinal)
		details, ok := v.details(ordinal)
		for ok && held.byOther(ordinal, details.AddressText) {
			ordinal = ordinals.pick()
			name = plan.MemberName(v.Group.Name, ordinal)
			details, ok = v.details(ordinal)
		}
		if !ok {
			v.blockClone(name, plan.Fault{Reason: plan.ReasonAddressesExhausted, Person: true, Message: fmt.Sprintf(
				"spec.networks has static addresses for %d members (ordinals from 0 on), and none for this one that is not still another member's: add some to the ranges (updates need maxSurge more than replicas), or set update.maxSurge to 0",
				plan.AddressCount(&v.Group.Spec))})
			break
		}
		v.arriving = append(v.arriving, ordinal)
		if v.act(plan.Action{
			Op: plan.Clone, VM: name, Ordinal: ordinal,
			Folder: v.State.Folder, Template: v.State.Template.MoRef, Fingerprint: v.State.Template.Fingerprint,
			CPU: v.Group.Spec.CPU, MemoryMB: v.Group.MemoryMB(), Revision: v.revision, Generation: v.Group.Generation,
			Details: details, Reason: why,
		}) {
			fresh++
		} else {
			failed++
		}
		if p := v.Pending[name]; p.Op == plan.Clone && p.Fault.Person {
			v.cloneFaults = append(v.cloneFaults, named{Who: name, Fault: p.Fault})
		}
	}
	if failed == 0 { // after a failure, the other clones wait
		v.cloning += fresh
	}
}

// surgeText says why the members made now exceed replicas.
func (v *view) surgeText(made int) string {
	extra, what := v.ordinals+len(v.arriving)+made-v.want, "the update"
	if v.helpers() > 0 {
		what = "the power cycles"
	}
	if extra == 1 {
		return "surge: one extra member during " + what
	}
	return fmt.Sprintf("surge: %d extra members during %s", extra, what)
}

// blockClone notes why a member cannot be cloned until an operator acts.
func (v *view) blockClone(who string, fault plan.Fault) {
	v.faults = append(v.faults, named{Who: who, Fault: fault})
	v.cloneFaults = append(v.cloneFaults, named{Who: who, Fault: fault})
}

// sourceFault says why nothing can be cloned at all; nil if something can. No member is made without its user data: it
// would find none at its first boot.
func (v *view) sourceFault() *plan.Fault {
	if v.Related.Fault != nil {
		return v.Related.Fault
	}
	return v.templateFault()
}

// details returns the details of the member with that ordinal; false if the ranges have no address for it.
func (v *view) details(ordinal int32) (*plan.Details, bool) {
	spec := &v.Group.Spec
	addresses, ok := plan.AddressesOf(spec, ordinal)
	return &plan.Details{Spec: spec, UserData: v.Related.UserData, Zone: plan.ZoneOf(spec, ordinal), Addresses: addresses,
		Home: plan.HomeOf(spec).String(), AddressText: plan.AddressText(addresses), Prepared: v.prepared}, ok
}

// freeOrdinal returns the lowest of ordinal, ordinal+step, … that a new member can have.
func (v *view) freeOrdinal(ordinal, step int32) int32 {
	for v.taken(ordinal) {
		ordinal += step
	}
	return ordinal
}

// createFolder creates the group's folder, and reports whether nothing hinders it.
func (v *view) createFolder() bool {
	if v.Now.Sub(v.Called) > folderGrace || !v.Called.After(v.FolderSeen) || v.Blind || v.later {
		v.waitCall = true
		return true
	}
	return v.act(plan.Action{Op: plan.CreateFolder, VM: plan.FolderKey, Details: &plan.Details{Spec: &v.Group.Spec}, Reason: "members need the group's folder " + v.Group.Namespace + "/" + v.Group.Name})
}

// templateFault says why the template cannot be cloned from; nil if it can.
func (v *view) templateFault() *plan.Fault {
	t, name := &v.State.Template, v.Group.Spec.Template
	switch {
	case len(t.Paths) == 1:
		return nil
	case len(t.Paths) > 1:
		return &plan.Fault{Reason: plan.ReasonTemplateAmbiguous, Person: true, Message: fmt.Sprintf(
			"template %q is ambiguous: give the inventory path of one of %s", name, strings.Join(t.Paths, ", "))}
	}
	there := "no templates there"
	if len(t.Others) > 0 {
		there = "templates there: " + strings.Join(t.Others, ", ")
	}
	return &plan.Fault{Reason: plan.ReasonTemplateNotFound, Person: true, Message: fmt.Sprintf(
		"template %q not found in datacenter %s; %s", name, t.Datacenter, there)}
}

// heldAddresses maps each static address to the ordinal of the member that has it, according to the stamps: the ranges may have
// changed since members were made.
type heldAddresses map[string]int32

func (v *view) heldAddresses() heldAddresses {
	held := heldAddresses{}
	for i := range v.State.VMs {
		for _, address := range plan.AddressesIn(v.State.VMs[i].Addresses) {
			held[address] = v.State.VMs[i].Ordinal
		}
	}
	return held
}

// byOther reports whether a member with another ordinal has one of these addresses.
func (h heldAddresses) byOther(ordinal int32, text string) bool {
	return slices.ContainsFunc(plan.AddressesIn(text), func(address string) bool {
		by, held := h[address]
		return held && by != ordinal
	})
}
