package planner

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// otherInstall holds a group back that another install of the server has, as its finalizer says, while nothing of the group is known
// here: either install could be making its VMs. (Which vCenter has members tells the rest: VCenterChanged.) Metacontroller sets a
// finalizer before it first calls a hook, and the API server orders these writes: so of two installs that select one new group,
// at least one sees the other's. Where both do, none acts until somebody corrects a selector. An install that no longer selects the
// group lets it go once nothing can come there (unselected); then the other one goes on.
func (v *view) otherInstall() *plan.Fault {
	s := &v.Group.Status
	if len(v.Group.Finalizers) == 0 || len(v.State.VMs)+len(s.Members)+len(s.Quarantined)+len(s.Standby)+len(v.Group.DisksLeft()) > 0 || v.AnyRunning() {
		return nil
	}
	return &plan.Fault{Reason: plan.ReasonOtherInstall, Message: fmt.Sprintf(
		"another install of VmGroup has this group (its finalizer is %s): nothing is made here until that one lets it go; if both select the group, correct its label or a labelSelector",
		v.Group.Finalizers[0])}
}
