package plan

import (
	"cmp"
	"time"
)

// Customization is how far vCenter got with the customization of a guest (spec.customizationSpec); zero if it is done, there was none,
// or vCenter does not say.
type Customization struct {
	State CustomizationState
	// Error is why it failed, in the guest's words, and Ended when.
	Error string
	Ended time.Time
}

// CustomizationState is a state in which a customization is not done.
type CustomizationState string

// The states in which a customization is not done (vSphere's GuestInfoCustomizationStatus).
const (
	CustomizationPending CustomizationState = "pending"
	CustomizationRunning CustomizationState = "running"
	CustomizationFailed  CustomizationState = "failed"
)

// uncustomized is why the i-th member is not ready although its readiness.check may hold: the guest is yet to get its name and
// addresses, or did not get them. A member that was ready stays so if the customization did not go on: servers before this one did
// not look, and a guest that serves is not taken from its users. So does one that was powered on after the failure: somebody saw to it.
func (v *view) uncustomized(m *member, i int) CustomizationState {
	c := v.customizationOf(m)
	if c.State == CustomizationRunning || c.State == "" {
		return c.State
	}
	if r := v.record(m.MoRef, i); r != nil && r.Ready || c.State == CustomizationFailed && m.Boot.After(c.Ended) && !c.Ended.IsZero() {
		return ""
	}
	return c.State
}

// customizationOf is a member's customization; an adopted VM's was not for this group.
func (v *view) customizationOf(m *member) Customization {
	if v.Group.Spec.CustomizationSpec == "" || m.Former != (Former{}) {
		return Customization{}
	}
	return m.Customization
}

// failedCustomizations are the members whose customization failed, as faults. Only those are told that are not ready for it, or all.
func (v *view) failedCustomizations(all bool) (found []named) {
	for i := range v.members {
		m := &v.members[i]
		if c := v.customizationOf(m); c.State == CustomizationFailed && (all || m.uncustomized == CustomizationFailed) {
			found = append(found, named{who: m.name, Fault: Fault{Reason: ReasonCustomizationFailed, Person: true, Message: failedText(c)}})
		}
	}
	return found
}

func failedText(c Customization) string {
	return "the customization of its guest failed, so it may have another name and other addresses: " +
		cmp.Or(c.Error, "vCenter does not say why") + ". Correct the customization specification and replace the member (spec.replace), or correct the guest and power it off and on"
}
