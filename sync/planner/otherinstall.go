package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// otherInstall blocks a group that has the finalizer of another install of the server, while nothing of the group is known here: either install
// could be creating its VMs. (If one of them has members, VCenterChanged decides.) Metacontroller sets a finalizer before it first calls a
// hook, and the API server orders these writes, so of two installs that select one new group, at least one sees the other's finalizer. If both
// do, neither acts until an operator corrects a selector. Both write the status, so it must not differ from install to install: not in its
// message, nor in whether vCenter can be reached. An install that no longer selects the group gives up its finalizer once it can have no VM of
// the group (unselected.go); then the other install continues.
func (f *facts) otherInstall() *plan.Block {
	if f.Finalizing || len(f.Group.Finalizers) == 0 || len(f.State.VMs)+f.recorded()+len(f.Group.DisksLeft()) > 0 || f.AnyRunning() {
		return nil
	}
	return &plan.Block{Fault: plan.Fault{Reason: plan.ReasonOtherInstall}}
}
