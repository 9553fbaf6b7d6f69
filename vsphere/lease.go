package vsphere

import (
	"context"
	"time"

	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// acting is the key of the step that a context's calls are made for.
type acting struct{}

// actor is the group that is acted for, and the Action.VM.
type actor struct {
	uid apitypes.UID
	vm  string
}

// actFor gives ctx the step that its calls are made for.
func actFor(ctx context.Context, ref plan.Ref, a plan.Action) context.Context {
	return context.WithValue(ctx, acting{}, actor{ref.UID, a.VM})
}

// anyway gives a ctx whose calls ask for no lease: those that end what a step began, and that vCenter refuses if anybody
// changed the VM meanwhile.
func anyway(ctx context.Context) context.Context { return context.WithValue(ctx, acting{}, nil) }

// mayAct tells, right before a call, whether its group may still be acted for. A step is several calls, and between two
// of them this process may have stood still, or a call may have taken long: then another replica may have
// gone on, and what was looked at before is old. Most of vCenter's calls, such as PowerOffVM_Task, take no word of what
// they were planned from.
func (v *VCenter) mayAct(ctx context.Context) error {
	s, is := ctx.Value(acting{}).(actor)
	if !is || v.cfg.Leased == nil || v.cfg.Leased(s.uid, s.vm) {
		return nil
	}
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The last hook call for the group was too long ago for a step to go on, or it says that the group is deleted; it is planned again.")
}

// unfencedMost bounds how long a call may be under way that takes a member down: ShutdownGuest, PowerOffVM_Task, ResetVM_Task. They
// bring no changeVersion, so whatever the call was planned from may be long past when it arrives; a call that is given up has its
// connection closed. Far below a lease, and below the default of spec.deletion.shutdownTimeoutSeconds: nobody pulls the plug of a guest,
// or powers its VM on again, while the guest may yet be asked. vCenter answers all three at once; what they begin goes on by itself.
const unfencedMost = 15 * time.Second

// unfenced gives such a call its time.
func unfenced(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, unfencedMost)
}
