// This file reads what a step must know right before it acts: a VM that is about to change, what is in a folder that is about to go,
// the running clones.
//
// It promises that an answer is from a read that began after the question. One read answers all steps that ask within 10 ms; where
// that fails, or lacks an object, each step reads by itself, so no step fails for another's object.

package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
)

// ReadFresh reads a VM now.
func (c calls) ReadFresh(ctx context.Context, vm types.ManagedObjectReference) (*FreshVM, error) {
	var now FreshVM
	o, err := c.freshObject(ctx, vm)
	if err == nil && o.Found {
		now.take(o)
	}
	return &now, err
}

// recentClones returns the tasks of our user's clones that are queued or running.
func (c calls) recentClones(ctx context.Context) ([]string, error) {
	a, shared, err := c.askFresh(ctx, recentTasks)
	if err == nil && shared {
		err = c.stillMay(ctx)
	} else if shared && !session.IsFatal(err) {
		a, err = c.readFresh(ctx, []types.ManagedObjectReference{recentTasks})
	}
	return a.clones, err
}

// askFresh asks vCenter, together with other steps.
func (c calls) askFresh(ctx context.Context, about types.ManagedObjectReference) (a freshAnswer, shared bool, err error) {
	if err := c.canAct(); err != nil {
		return a, false, err
	}
	return c.fresh.Ask(ctx, about)
}

// stillMay returns an error if the step isn't allowed to act on an answer any more. It makes no call.
func (c calls) stillMay(ctx context.Context) error {
	return c.Call(ctx, func(context.Context, *session.Session) error { return nil })
}

// freshFolder reads a folder.
func (c calls) freshFolder(ctx context.Context, folder types.ManagedObjectReference) (freshFolder, error) {
	o, err := c.freshObject(ctx, folder)
	return freshFolder{
		Name:     session.Prop[string](o, "name"),
		Parent:   session.Prop[types.ManagedObjectReference](o, "parent").Value,
		Children: session.Prop[types.ArrayOfManagedObjectReference](o, "childEntity").ManagedObjectReference, // an empty list may be left out
		Seen:     o.Found && !o.Withheld,
	}, err
}

// freshObject reads a VM or a folder.
func (c calls) freshObject(ctx context.Context, ref types.ManagedObjectReference) (session.Object, error) {
	a, shared, err := c.askFresh(ctx, ref)
	if err == nil {
		if at := slices.IndexFunc(a.objects, func(o session.Object) bool { return o.Ref == ref }); at >= 0 {
			return a.objects[at], c.stillMay(ctx)
		}
	}
	if shared && (err == nil || !session.IsFatal(err)) { // another step's object may have failed the call, and only a read of this one alone says that it is gone
		a, err = c.readFresh(ctx, []types.ManagedObjectReference{ref})
	}
	if err != nil || len(a.objects) == 0 {
		return session.Object{Ref: ref}, err
	}
	return a.objects[0], nil
}

// readFresh reads VMs, folders and recent tasks in one call. What is gone is left out if there are several.
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
