package planner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// otherInstall blocks a group that has the finalizer of another install of the server, while nothing of the group is known here: either install
// could be creating its VMs. (If one of them has members, VCenterChanged decides.) Metacontroller sets a finalizer before it first calls a
// hook, and the API server orders these writes, so of two installs that select one new group, at least one sees the other's finalizer. If both
// do, neither acts until an operator corrects a selector. Both write the status, so it must not differ from install to install: not in its
// message, nor in whether vCenter can be reached. An install that no longer selects the group gives up its finalizer once it can have no VM of
// the group (unselected.go); then the other install continues.
func (f *facts) otherInstall() *plan.Fault {
	s := &f.Group.Status
	if f.Finalizing || len(f.Group.Finalizers) == 0 || len(f.State.VMs)+len(s.Members)+len(s.Quarantined)+len(s.Standby)+len(f.Group.DisksLeft()) > 0 || f.AnyRunning() {
		return nil
	}
	return &plan.Fault{Reason: plan.ReasonOtherInstall, Message: fmt.Sprintf(
		"another install of VmGroup has this group as well (%s): nothing is created until only one has it; if both select the group, correct its label or a labelSelector",
		f.installs())}
}

// otherFinalizers says for which other installs of the server the deletion of a group waits in the end. The status stays with the group then.
func (f *facts) otherFinalizers() []string {
	if len(f.Group.Finalizers) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("after that, the group waits for another install of VmGroup, because it has the finalizer %s: if that install was removed, add it again (docs/vcenters.md#remove-an-install)",
		plan.AtMost(f.Group.Finalizers, 5))}
}

// contested reports whether several installs have the group, so that none of them acts.
func (f *facts) contested() bool {
	return f.blockedBy != nil && f.blockedBy.Reason == plan.ReasonOtherInstall
}

// installs names the installs that have the group, in the same words in each of them.
func (f *facts) installs() string {
	return "the finalizers are " + plan.AtMost(f.Group.Finalizers, 5)
}

// servedElsewhere refuses a call for a group that another install serves, with VMs in another vCenter: two CompositeControllers select the group.
// This install has reported VCenterChanged, and the other one has set the condition to False, so without the refusal the two would write the
// status in turns. If only this install is called for the group, as after a change of its label, the condition stays True, and the status is
// written.
func (r *report) servedElsewhere() *plan.Refusal {
	if r.facts.blockedBy == nil || r.facts.blockedBy.Reason != plan.ReasonVCenterChanged || len(r.facts.Group.Finalizers) == 0 ||
		!meta.IsStatusConditionPresentAndEqual(r.facts.Group.Status.Conditions, v1alpha1.ConditionVCenterChanged, metav1.ConditionFalse) {
		return nil
	}
	return &plan.Refusal{Message: fmt.Sprintf(
		"another install of VmGroup serves VmGroup %s/%s (%s): %s. Nothing is created here, and the status is that install's. Correct the group's label or a labelSelector, so that only one CompositeController selects it",
		r.facts.Group.Namespace, r.facts.Group.Name, r.facts.installs(), r.facts.blockedBy.Message)}
}
