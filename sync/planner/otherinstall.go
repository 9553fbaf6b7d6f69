package planner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// otherInstall blocks a group that another install of the server has, as its finalizer says, while nothing of the group is known
// here: either install could be making its VMs. (Which vCenter has members tells the rest: VCenterChanged.) Metacontroller sets a
// finalizer before it first calls a hook, and the API server orders these writes: so of two installs that select one new group,
// at least one sees the other's. Where both do, none acts until somebody corrects a selector, and both write the status: so nothing in
// it can differ from install to install, neither the message nor whether vCenter can be reached. An install that no longer selects the
// group lets it go once nothing can come there (unselected); then the other one continues.
func (f *facts) otherInstall() *plan.Fault {
	s := &f.Group.Status
	if f.Finalizing || len(f.Group.Finalizers) == 0 || len(f.State.VMs)+len(s.Members)+len(s.Quarantined)+len(s.Standby)+len(f.Group.DisksLeft()) > 0 || f.AnyRunning() {
		return nil
	}
	return &plan.Fault{Reason: plan.ReasonOtherInstall, Message: fmt.Sprintf(
		"another install of VmGroup has this group as well (%s): nothing is created until only one has it; if both select the group, correct its label or a labelSelector",
		f.installs())}
}

// contested reports whether the status is that of several installs, none of which makes anything.
func (f *facts) contested() bool {
	return f.blockedBy != nil && f.blockedBy.Reason == plan.ReasonOtherInstall
}

// installs names the installs that have the group, in the same words in each of them.
func (f *facts) installs() string {
	return "the finalizers are " + plan.AtMost(f.Group.Finalizers, 5)
}

// servedElsewhere refuses a call for a group that another install serves, and that has its VMs in another vCenter: two CompositeControllers
// select it. This install has reported VCenterChanged, and the other one, which doesn't see that, has written it back as False: so
// they would write the status in turns, forever. A group that only this install is called for, such as one whose label was changed,
// keeps the condition as True, and its status is written.
func (r *report) servedElsewhere() *plan.Refusal {
	if r.facts.blockedBy == nil || r.facts.blockedBy.Reason != plan.ReasonVCenterChanged || len(r.facts.Group.Finalizers) == 0 ||
		!meta.IsStatusConditionPresentAndEqual(r.facts.Group.Status.Conditions, v1alpha1.ConditionVCenterChanged, metav1.ConditionFalse) {
		return nil
	}
	return &plan.Refusal{Message: fmt.Sprintf(
		"another install of VmGroup serves VmGroup %s/%s (%s): %s. Nothing is created here, and the status is that install's. Correct the group's label or a labelSelector, so that only one CompositeController selects it",
		r.facts.Group.Namespace, r.facts.Group.Name, r.facts.installs(), r.facts.blockedBy.Message)}
}
