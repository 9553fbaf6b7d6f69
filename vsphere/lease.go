package vsphere

import (
	"context"
	"fmt"
	"time"

	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// acting is the key of the step that a context's calls are made for.
type acting struct{}

// actor is a step: its group, its Action.VM, its kind, how many tasks it has begun, and what they have taken so far.
type actor struct {
	uid  apitypes.UID
	vm   string
	op   plan.Op
	nth  int
	took *plan.Took
}

// actFor gives ctx the step that its calls are made for, one after the other.
func actFor(ctx context.Context, ref plan.Ref, a plan.Action, took *plan.Took) context.Context {
	return context.WithValue(ctx, acting{}, &actor{uid: ref.UID, vm: a.VM, op: a.Op, took: took})
}

// anyway returns a ctx whose calls need no lease: those that finish what a step began, and that vCenter refuses if anybody
// changed the VM meanwhile.
func anyway(ctx context.Context) context.Context { return context.WithValue(ctx, acting{}, nil) }

// kind tells the tasks of steps apart by how long they take: a step's first task is of another kind than its second.
func (s *actor) kind() string {
	s.nth++
	return fmt.Sprint(s.op, s.nth)
}

// mayAct checks, right before a call, that its group is still under lease. A step is several calls, and between two
// of them this process may have stood still, or a call may have taken long: then another replica may have
// acted, and what was read before is old. Most of vCenter's calls, such as PowerOffVM_Task, have no parameter to guard against
// that.
func (v *VCenter) mayAct(ctx context.Context) error {
	s, is := ctx.Value(acting{}).(*actor)
	if !is || v.cfg.Leased == nil || v.cfg.Leased(s.uid, s.vm) {
		return nil
	}
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The last hook call for the group was too long ago for a step to continue, or says that the group is deleted; it is planned again.")
}

// unfencedMost bounds the calls that take a member down: ShutdownGuest, PowerOffVM_Task, ResetVM_Task. They
// have no changeVersion, so the facts that such a call was planned from may be outdated when it arrives; when it is given up, its
// connection is closed. The bound is far below a lease, and below the default of spec.deletion.shutdownTimeoutSeconds: no replica powers
// a VM off, or on again, while its guest may still get the request. vCenter answers all three at once, and the work continues by itself.
const unfencedMost = 15 * time.Second

// unfenced bounds the time of such a call.
func unfenced(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, unfencedMost)
}
