// This file makes the calls of a step: each under the group's lease, and in the vCenter that the inventory was read from.

package vsphere

import (
	"context"
	"fmt"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// calls are the calls of one step, one after the other, each of which needs the group's lease; or calls of no step, which need none.
type calls struct {
	*parts
	by *actor // nil: of no step
}

// actor is the step that makes calls: its group, its Action.VM, its kind, how many tasks it has begun, and how long they took so far.
type actor struct {
	uid  apitypes.UID
	vm   string
	op   plan.Op
	nth  int
	took *plan.Took
}

// kind tells the tasks of steps apart by how long they take: a step's first task is of another kind than its second.
func (s *actor) kind() string {
	s.nth++
	return fmt.Sprint(s.op, s.nth)
}

// withoutLease returns calls that need no lease: those that finish a step that has begun, and that vCenter refuses if anybody changed the VM
// meanwhile.
func (c calls) withoutLease() calls { return calls{parts: c.parts} }

// canAct checks, right before a call, that its group is still under lease. A step is several calls, and between two of them this process may
// have been suspended, or a call may have taken long: then another replica may have acted, and earlier reads are old. Most of vCenter's
// calls, such as PowerOffVM_Task, have no parameter to guard against that.
func (c calls) canAct() error {
	if c.by == nil || c.cfg.Leased == nil || c.cfg.Leased(c.by.uid, c.by.vm) {
		return nil
	}
	return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "The group's last hook call is too old for a step to continue, or says that the group is deleted; the server plans the group again.")
}

// Call makes a call that was planned from the inventory, but only in the vCenter that the inventory was read from, and under lease.
func (c calls) Call(ctx context.Context, f func(context.Context, *session.Session) error) error {
	return c.client.Call(ctx, func(ctx context.Context, s *session.Session) error {
		if c.inventory.VCenter() != s.UUID {
			return vcfault.ForRetry(plan.ReasonVCenterChanged, "Another vCenter answers now; the server reads its inventory first.")
		}
		if err := c.canAct(); err != nil {
			return err
		}
		return f(ctx, s)
	})
}

// Task starts a task and waits for it to end.
func (c calls) Task(ctx context.Context, start func(context.Context, *session.Session) (types.ManagedObjectReference, error)) (*types.TaskInfo, error) {
	var task types.ManagedObjectReference
	err := c.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		task, err = start(ctx, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.await(ctx, task)
}

// await waits for a task to end.
func (c calls) await(ctx context.Context, task types.ManagedObjectReference) (*types.TaskInfo, error) {
	if c.by == nil {
		return c.tasks.Wait(ctx, task, "")
	}
	c.inFlight.Await(c.by.uid, c.by.vm, task)
	info, err := c.tasks.Wait(ctx, task, c.by.kind())
	queued, ran := tasks.Times(info)
	c.by.took.Queued += queued
	c.by.took.Ran += ran
	return info, err
}

// rest makes calls of the REST API of the vCenter that the inventory was read from.
func (c calls) rest(ctx context.Context, f func(context.Context, *session.RESTSession) error) error {
	var now *session.Session
	if err := c.Call(ctx, func(_ context.Context, s *session.Session) error { now = s; return nil }); err != nil {
		return err
	}
	return c.client.REST(ctx, now, f)
}

// Child finds an object by its name in a folder; the zero reference if there is none.
func (c calls) Child(ctx context.Context, folder types.ManagedObjectReference, name string) (found types.ManagedObjectReference, err error) {
	err = c.Call(ctx, func(ctx context.Context, s *session.Session) error {
		res, err := methods.FindChild(ctx, s.Vim, &types.FindChild{This: *s.Vim.ServiceContent.SearchIndex, Entity: folder, Name: name})
		if err == nil && res.Returnval != nil {
			found = *res.Returnval
		}
		return err
	})
	return found, err
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

func (c calls) reconfigure(ctx context.Context, vm types.ManagedObjectReference, spec types.VirtualMachineConfigSpec) error {
	_, err := c.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.ReconfigVM_Task(ctx, s.Vim, &types.ReconfigVM_Task{This: vm, Spec: spec})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	return err
}

// awaitPower waits for the running tasks of those kinds that change a VM's power state or destroy it, and then reads the VM. Another replica may have begun one before this
// one set or withdrew the VM's mark, and the VM's state doesn't show it before it ends. A datacenter's task that powers VMs on does not say
// which before it has begun theirs, so awaitPower waits for those, and then for the tasks of the VM that they began.
func (c calls) awaitPower(ctx context.Context, vm types.ManagedObjectReference, kinds ...string) error {
	for range 2 {
		var under []types.ManagedObjectReference
		undecided := false
		err := c.Call(ctx, func(ctx context.Context, s *session.Session) error {
			infos, err := tasks.Recent(ctx, s)
			under, undecided = tasks.Of(infos, vm, s.User, kinds...)
			return err
		})
		if err != nil || len(under) == 0 {
			return err
		}
		for _, task := range under {
			_, _ = c.tasks.Wait(ctx, task, "") // the result does not matter: the read shows the state
		}
		if err := c.reader.Read(ctx, vm); err != nil || !undecided {
			return err
		}
	}
	return nil
}
