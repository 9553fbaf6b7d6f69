package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// uncustomized is the state of the guest customization that keeps the i-th member unready, even if readiness.check is met: its guest does not have
// its name and addresses yet, or failed to get them. A member that was ready stays ready while its customization is pending or failed: older
// servers did not look at it, and a serving guest must not lose its traffic. A member that was powered on after the failure can be ready: an
// operator has corrected it.
func (f *facts) uncustomized(m *member, i int) plan.CustomizationState {
	c := f.customizationOf(m)
	if c.State == plan.CustomizationRunning || c.State == "" {
		return c.State
	}
	if r := f.Record(m.MoRef, i); r != nil && r.Ready || c.State == plan.CustomizationFailed && m.BootTime.After(c.Ended) && !c.Ended.IsZero() {
		return ""
	}
	return c.State
}

// customizationOf returns a member's customization. An adopted VM has none: its own was not for this group.
func (f *facts) customizationOf(m *member) plan.Customization {
	if f.Group.Spec.CustomizationSpec == "" || m.Former != (plan.Former{}) {
		return plan.Customization{}
	}
	return m.Customization
}
