package planner

import (
	"cmp"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The states in which a customization is not done (vSphere's GuestInfoCustomizationStatus).
const (
	CustomizationPending plan.CustomizationState = "pending"
	CustomizationRunning plan.CustomizationState = "running"
	CustomizationFailed  plan.CustomizationState = "failed"
)

// uncustomized is why the i-th member is not ready although its readiness.check may hold: the guest is yet to get its name and
// addresses, or did not get them. A member that was ready stays so if the customization did not go on: servers before this one did
// not look, and a guest that serves is not taken from its users. So does one that was powered on after the failure: somebody saw to it.
func (v *view) uncustomized(m *member, i int) plan.CustomizationState {
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
func (v *view) customizationOf(m *member) plan.Customization {
	if v.Group.Spec.CustomizationSpec == "" || m.Former != (plan.Former{}) {
		return plan.Customization{}
	}
	return m.Customization
}

// failedCustomizations are the members whose customization failed, as faults. Only those are told that are not ready for it, or all.
func (v *view) failedCustomizations(all bool) (found []named) {
	for i := range v.members {
		m := &v.members[i]
		if c := v.customizationOf(m); c.State == CustomizationFailed && (all || m.uncustomized == CustomizationFailed) {
			found = append(found, named{who: m.name, Fault: plan.Fault{Reason: plan.ReasonCustomizationFailed, Person: true, Message: failedText(c)}})
		}
	}
	return found
}

func failedText(c plan.Customization) string {
	return "the customization of its guest failed, so it may have another name and other addresses: " +
		cmp.Or(c.Error, "vCenter does not say why") + ". Correct the customization specification and replace the member (spec.replace), or correct the guest and power it off and on"
}
