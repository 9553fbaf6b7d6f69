package vsphere

import (
	"context"

	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// acting is the key of the group that a context's calls are made for.
type acting struct{}

// actFor gives ctx the group that is acted for.
func actFor(ctx context.Context, ref plan.Ref) context.Context {
	return context.WithValue(ctx, acting{}, ref.UID)
}

// anyway gives a ctx whose calls ask for no lease: those that end what a step began, and that vCenter refuses if anybody
// changed the VM meanwhile.
func anyway(ctx context.Context) context.Context { return context.WithValue(ctx, acting{}, nil) }

// mayAct tells, right before a call, whether its group may still be acted for. A step is several calls, and between two
// of them this process may have stood still, or a call may have taken long: then another copy of the server may have
// gone on, and what was looked at before is old. Most of vCenter's calls, such as PowerOffVM_Task, take no word of what
// they were planned from.
func (v *VCenter) mayAct(ctx context.Context) error {
	uid, is := ctx.Value(acting{}).(apitypes.UID)
	if !is || v.cfg.Leased == nil || v.cfg.Leased(uid) {
		return nil
	}
	return faultf(ReasonConcurrentAccess, false, "The last hook call for the group was too long ago for a step to go on; it is planned anew at the next one.")
}
