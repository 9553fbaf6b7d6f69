// This file finds how a VM differs from the spec.

package planner

import (
	"fmt"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// sizeDifference says how a VM's size differs from the spec.
func (f *facts) sizeDifference(vm *plan.VM) string {
	var in []string
	if vm.CPU != f.Group.Spec.CPU {
		in = append(in, fmt.Sprintf("%s instead of %d", plan.Count(int(vm.CPU), "CPU"), f.Group.Spec.CPU))
	}
	if want := f.Group.MemoryMB(); vm.MemoryMB != want {
		is, unit := fmt.Sprintf("%d GiB", vm.MemoryMB/1024), "" // as the spec counts it
		if vm.MemoryMB%1024 != 0 {
			is, unit = fmt.Sprintf("%d MiB", vm.MemoryMB), " GiB"
		}
		in = append(in, fmt.Sprintf("%s of memory instead of %d%s", is, want/1024, unit))
	}
	if vm.Allocation != f.allocation {
		in = append(in, "other reservations, limits or shares")
	}
	if len(in) == 0 {
		return ""
	}
	return "has " + strings.Join(in, " and ")
}

// disksDue says how the disks of a member differ from the spec in what can change in place. An adopted VM keeps its own, and those of one
// that never ran are identified as it is prepared.
func (f *facts) disksDue(m *member) string {
	if m.Former.Entry != "" || m.unprepared() {
		return ""
	}
	return plan.DisksToChange(&f.Group.Spec, m.VM.Disks)
}

// cloneDifference says how a VM differs from one cloned now; empty if it doesn't. ages is when its age will make it differ; zero if it differs
// already, or has no maximum age. What was cloned or adopted for another spec comes first. Only a clone can differ in its hardware and disks: an
// adopted VM keeps what it had.
func (f *facts) cloneDifference(vm *plan.VM) (how string, ages time.Time) {
	addresses, _ := plan.AddressesOf(&f.Group.Spec, vm.Ordinal)
	switch {
	case f.revision == "": // what a new clone would be made from is unknown
		return "", time.Time{}
	case vm.Revision != f.revision:
		return f.madeOtherwise(vm), time.Time{}
	case vm.Addresses != plan.AddressText(addresses):
		return "has other addresses than spec.networks gives it now", time.Time{}
	case f.policy.ReplaceOnTemplate && f.templateChanged(vm):
		return "was cloned from an older version of the template", time.Time{}
	}
	tooOld, ages := f.tooOld(vm)
	if tooOld {
		return agedText, time.Time{}
	}
	if vm.Former.Entry != "" {
		return "", ages
	}
	if disk := plan.DisksOtherwise(&f.Group.Spec, vm.Disks); disk != "" {
		how = "has its disk " + disk + " on another datastore, storagePolicy or provisioning than spec.disks says now"
	}
	return how, ages
}

// needsClone reports whether a member differs from the spec in what only a new clone changes.
func (f *facts) needsClone(m *member) bool {
	return m.outdated != "" || m.resize != "" && (f.policy.Resize == v1alpha1.ResizeReplace || f.refusesResize(m))
}

// agedText says that a member differs from one cloned now in its age alone.
const agedText = "has reached its maximum age (update.maxAgeSeconds)"

// madeOtherwise says what a VM of another revision was cloned from: another template, if the VM's stamp names one, or if it names none and no other
// field of the spec enters the revision. If the stamp names the same one, another field of the spec differs.
func (f *facts) madeOtherwise(vm *plan.VM) string {
	template := f.Group.Spec.Template
	switch others := f.revision != plan.Revision(&v1alpha1.VmGroupSpec{Template: template}); {
	case vm.Template != "" && vm.Template != template:
		return fmt.Sprintf("was cloned from %s instead of %s", plan.AtMost([]string{vm.Template}, 1), plan.AtMost([]string{template}, 1))
	case others || vm.Template == template:
		return "was cloned from another revision of the spec"
	}
	return "was cloned from another template"
}

// templateChanged reports whether the template was replaced, or its disks changed, since the VM was cloned from it.
func (f *facts) templateChanged(vm *plan.VM) bool {
	now := &f.State.Template
	return vm.Revision == f.revision && f.revision != "" && now.Fingerprint != "" && vm.Fingerprint != "" && vm.Fingerprint != now.Fingerprint
}

// mayLackTags says why the tags and attributes of a prepared member are to be compared with the spec again; empty if they aren't. vCenter keeps tags by
// the moRef. If an operator asks, a replica compares them that was called since they were compared last: an older call has an older annotation.
func (f *facts) mayLackTags(m *member) string {
	asked := plan.TryAgainOf(f.Group)
	switch {
	case !plan.HasTags(&f.Group.Spec) || m.unprepared():
		return ""
	case m.Tagged.MoRef == plan.TagDetached:
		return "vCenter has an event that a tag was detached from a VM of its name"
	case m.Tagged.MoRef != "" && m.Tagged.MoRef != m.MoRef:
		return "it came back with another moRef, so vCenter may have dropped its tags and attributes"
	case asked != "" && m.Tagged.Asked != asked && f.Called.After(m.Tagged.At):
		return "an operator asks to look at its tags and attributes again (try-again)"
	}
	return ""
}
