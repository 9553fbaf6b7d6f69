// This file reads what a step must know right before it acts: a VM before a change, the contents of a folder before its removal, and the
// running clones.
//
// It promises that an answer is from a read that began after the question. One read answers all steps that ask within 10 ms. If that read
// fails or lacks an object, each step reads by itself, so that no step fails because of another step's object.

package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
)

// ReadFresh reads a VM from vCenter, not from the inventory.
func (c calls) ReadFresh(ctx context.Context, vm types.ManagedObjectReference) (*FreshVM, error) {
	var now FreshVM
	o, err := c.freshObject(ctx, vm)
	if err == nil && o.Found {
		o.Into(now.properties())
	}
	return &now, err
}

// recentClones returns the queued and running clone tasks of the server's account.
func (c calls) recentClones(ctx context.Context) ([]string, error) {
	a, shared, err := c.askFresh(ctx, recentTasks)
	if err == nil && shared {
		err = c.recheckLease(ctx)
	} else if shared && !session.IsFatal(err) {
		a, err = c.readFresh(ctx, []types.ManagedObjectReference{recentTasks})
	}
	return a.clones, err
}

// askFresh reads an object, together with those that other steps ask for.
func (c calls) askFresh(ctx context.Context, about types.ManagedObjectReference) (a freshAnswer, shared bool, err error) {
	if err := c.checkLease(); err != nil {
		return a, false, err
	}
	return c.fresh.Ask(ctx, about)
}

// recheckLease checks that the step may still act after it waited for an answer. It makes no call.
func (c calls) recheckLease(ctx context.Context) error {
	return c.Call(ctx, func(context.Context, *session.Session) error { return nil })
}

// freshFolder reads a folder.
func (c calls) freshFolder(ctx context.Context, folder types.ManagedObjectReference) (freshFolder, error) {
	o, err := c.freshObject(ctx, folder)
	x := freshFolder{Seen: o.Found && !o.Withheld}
	o.Into(x.properties())
	return x, err
}

// freshObject reads a VM or a folder.
func (c calls) freshObject(ctx context.Context, ref types.ManagedObjectReference) (session.Object, error) {
	a, shared, err := c.askFresh(ctx, ref)
	if err == nil {
		if at := slices.IndexFunc(a.objects, func(o session.Object) bool { return o.Ref == ref }); at >= 0 {
			return a.objects[at], c.recheckLease(ctx)
		}
	}
	if shared && (err == nil || !session.IsFatal(err)) { // another step's object may have failed the call, and only a read of this object alone shows whether it is gone
		a, err = c.readFresh(ctx, []types.ManagedObjectReference{ref})
	}
	if err != nil || len(a.objects) == 0 {
		return session.Object{Ref: ref}, err
	}
	return a.objects[0], nil
}

// readFresh reads VMs, folders and recent tasks in one call. If refs are several, the answer leaves out those that are gone.
func (c calls) readFresh(ctx context.Context, refs []types.ManagedObjectReference) (a freshAnswer, err error) {
	err = c.Call(ctx, func(ctx context.Context, s *session.Session) error {
		var specs []types.PropertyFilterSpec
		if slices.Contains(refs, recentTasks) {
			specs = append(specs, tasks.RecentSpec(s))
		}
		if vms := freshSpec(refs); len(vms.ObjectSet) > 0 {
			specs = append(specs, vms)
		}
		objects, err := session.ReadObjects(ctx, s, specs...)
		a = freshAnswer{objects: objects, clones: tasks.ClonesIn(objects, s.User)}
		return err
	})
	return a, err
}
