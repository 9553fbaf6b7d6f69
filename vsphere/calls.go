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

// calls makes calls to vCenter. The calls of a step run one after the other, and each needs the group's lease; calls outside a step need none.
type calls struct {
	*parts
	by *actor // nil outside a step
}

// actor identifies the step that makes calls: its group, its Action.Key and its kind. nth is the number of tasks that it has begun, and took adds
// up how long they took.
type actor struct {
	uid  apitypes.UID
	vm   string
	op   plan.Op
	nth  int
	took *plan.StepResult
}

// kind returns the kind of the step's next task. The durations of tasks are compared by kind, and a step's first task differs from its second.
func (s *actor) kind() string {
	s.nth++
	return fmt.Sprint(s.op, s.nth)
}

// withoutLease returns calls that need no lease. They are for writes that finish a step and carry a changeVersion, so that vCenter refuses
// them if the VM has changed.
func (c calls) withoutLease() calls { return calls{parts: c.parts} }

// checkLease checks, right before a call, that this process still has the group's lease. Between two calls of a step the process may have been
// suspended, or the first call may have taken long; then another replica may have acted, and earlier reads are out of date. Most of vCenter's
// calls, such as PowerOffVM_Task, have no parameter that guards against that.
func (c calls) checkLease() error {
	if c.by == nil || c.cfg.Leased == nil || c.cfg.Leased(c.by.uid, c.by.vm) {
		return nil
	}
	return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "The group's last hook call is too old for a step to continue, or says that the group is deleted; the server plans the group again.")
}

// Call runs f with a session of the vCenter that the inventory was read from. It fails, and doesn't run f, if another vCenter answers or if the
// lease of the step has ended.
func (c calls) Call(ctx context.Context, f func(context.Context, *session.Session) error) error {
	return c.client.Call(ctx, func(ctx context.Context, s *session.Session) error {
		if c.inventory.VCenter() != s.UUID {
			return vcfault.ForRetry(plan.ReasonVCenterChanged, "Another vCenter answers now; the server reads its inventory first.")
		}
		if err := c.checkLease(); err != nil {
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
	return c.await(ctx, task, time.Now())
}

// await waits for a task to end that began at about that time.
func (c calls) await(ctx context.Context, task types.ManagedObjectReference, began time.Time) (*types.TaskInfo, error) {
	if c.by == nil {
		return c.tasks.Wait(ctx, task, "", began)
	}
	c.inFlight.Await(c.by.uid, c.by.vm, task)
	info, err := c.tasks.Wait(ctx, task, c.by.kind(), began)
	queued, ran := tasks.Times(info)
	c.by.took.Queued += queued
	c.by.took.Ran += ran
	return info, err
}

// rest runs f with a session of the REST API, under the conditions of Call.
func (c calls) rest(ctx context.Context, f func(context.Context, *session.RESTSession) error) error {
	var now *session.Session
	if err := c.Call(ctx, func(_ context.Context, s *session.Session) error { now = s; return nil }); err != nil {
		return err
	}
	return c.client.REST(ctx, now, f)
}

// Child finds an object by its name in a folder. It returns the zero reference if there is none.
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

// unguardedTimeout bounds the calls that take a member down: ShutdownGuest, PowerOffVM_Task and ResetVM_Task. They have no changeVersion, so a
// call that arrives late acts on outdated facts; when the time is over, the connection is closed. The bound is far below a lease, and below
// the default of spec.deletion.shutdownTimeoutSeconds, so no replica powers the VM off or on while the guest may still get the request. vCenter
// answers all three calls at once, and carries them out afterwards.
const unguardedTimeout = 15 * time.Second

// unguarded bounds the time of a call that has no changeVersion.
func unguarded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, unguardedTimeout)
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

// awaitPower waits for the running tasks of those kinds that change the power state of a VM or destroy it, and then reads the VM. Another
// replica may have begun such a task before this replica set or withdrew the VM's mark, and the VM's state does not show a task before its
// end. A datacenter's task that powers VMs on names them only once it has begun their tasks, so awaitPower waits for such tasks first, and
// then for the tasks of the VM.
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
			if c.by != nil {
				c.inFlight.Await(c.by.uid, c.by.vm, task)
			}
			_, _ = c.tasks.Wait(ctx, task, "", time.Now()) // the result does not matter: the read shows the state
		}
		if err := c.reader.Read(ctx, vm); err != nil || !undecided {
			return err
		}
	}
	return nil
}
