// This file says which other installs of the server have the group, too.

package tell

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// otherFinalizers says for which other installs of the server the deletion of a group waits in the end. The status stays with the group then.
func (r *report) otherFinalizers() []string {
	if len(r.Group.Finalizers) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("after that, the group waits for another install of VmGroup, because it has the finalizer %s: if that install was removed, add it again (docs/vcenters.md#remove-an-install)",
		plan.AtMost(r.Group.Finalizers, 5))}
}

// contested reports whether several installs have the group, so that none of them acts.
func (r *report) contested() bool {
	return r.BlockedBy != nil && r.BlockedBy.Reason == plan.ReasonOtherInstall
}

// servedElsewhere refuses a call for a group that another install serves, with VMs in another vCenter: two CompositeControllers select the group.
// This install has reported VCenterChanged, and the other one has set the condition to False, so without the refusal the two would write the
// status in turns. If only this install is called for the group, as after a change of its label, the condition stays True, and the status is
// written.
func (r *report) servedElsewhere() *plan.Refusal {
	if r.Finalizing || r.BlockedBy == nil || r.BlockedBy.Reason != plan.ReasonVCenterChanged || len(r.Group.Finalizers) == 0 ||
		!meta.IsStatusConditionPresentAndEqual(r.Group.Status.Conditions, v1alpha1.ConditionVCenterChanged, metav1.ConditionFalse) {
		return nil
	}
	return &plan.Refusal{Message: fmt.Sprintf(
		"another install of VmGroup serves VmGroup %s/%s (%s): %s. Nothing is created here, and the status is that install's. Correct the group's label or a labelSelector, so that only one CompositeController selects it",
		r.Group.Namespace, r.Group.Name, plan.Installs(r.Group), r.BlockedBy.Message)}
}
