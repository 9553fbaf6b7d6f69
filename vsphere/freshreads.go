// This file reads what a step must know right before it acts: a VM that is about to change, what is in a folder that is about to go,
// the clones under way.
//
// It promises that an answer is from a read that began after the question. One read answers all steps that ask within 10 ms; where
// that fails, or lacks an object, each step reads by itself, so no step fails for another's object.

package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
)

// freshReads makes the reads. Its methods may be called from any goroutine.
type freshReads struct {
	calls  *VCenter
	rounds batchedRead[types.ManagedObjectReference, freshAnswer]
}

// freshAnswer is what a call says: of VMs and folders, and of clones if a question was recentTasks.
type freshAnswer struct {
	objects []session.Object
	clones  []string // the tasks of our user's clones that are queued or running
}

// recentTasks is the question for vCenter's recent tasks, instead of a moRef.
var recentTasks = types.ManagedObjectReference{Type: "TaskManager"}

// newFreshReads returns the reads of a vCenter.
func newFreshReads(v *VCenter) *freshReads {
	r := &freshReads{calls: v}
	r.rounds.ask = r.read
	return r
}

// Clones returns the tasks of our user's clones that are queued or running.
func (r *freshReads) Clones(ctx context.Context) ([]string, error) {
	a, shared, err := r.rounds.Ask(ctx, recentTasks)
	if err == nil && shared {
		err = r.mayAct(ctx)
	} else if shared && !session.IsFatal(err) {
		a, err = r.read(ctx, []types.ManagedObjectReference{recentTasks})
	}
	return a.clones, err
}

// freshFolder is a folder: its name, the moRef of the one that it is in, and what is in it.
type freshFolder struct {
	Name, Parent string
	Children     []types.ManagedObjectReference
	// Seen is false if our user may not see all of that.
	Seen bool
}

// Folder reads a folder.
func (r *freshReads) Folder(ctx context.Context, folder types.ManagedObjectReference) (freshFolder, error) {
	o, err := r.object(ctx, folder)
	return freshFolder{
		Name:     session.Prop[string](o, "name"),
		Parent:   session.Prop[types.ManagedObjectReference](o, "parent").Value,
		Children: session.Prop[types.ArrayOfManagedObjectReference](o, "childEntity").ManagedObjectReference, // an empty list may be left out
		Seen:     o.Told && !o.Withheld,
	}, err
}

// VM reads a VM.
func (r *freshReads) VM(ctx context.Context, vm types.ManagedObjectReference) (*FreshVM, error) {
	var now FreshVM
	o, err := r.object(ctx, vm)
	if err == nil && o.Told {
		now.take(o)
	}
	return &now, err
}

// object reads a VM or a folder.
func (r *freshReads) object(ctx context.Context, ref types.ManagedObjectReference) (session.Object, error) {
	a, shared, err := r.rounds.Ask(ctx, ref)
	if err == nil {
		if at := slices.IndexFunc(a.objects, func(o session.Object) bool { return o.Ref == ref }); at >= 0 {
			return a.objects[at], r.mayAct(ctx)
		}
	}
	if shared && (err == nil || !session.IsFatal(err)) { // another step's object may have failed the call, and only a read of this one alone says that it is gone
		a, err = r.read(ctx, []types.ManagedObjectReference{ref})
	}
	if err != nil || len(a.objects) == 0 {
		return session.Object{Ref: ref}, err
	}
	return a.objects[0], nil
}

// mayAct returns an error if the step in ctx may no longer act on a shared answer. It makes no call.
func (r *freshReads) mayAct(ctx context.Context) error {
	return r.calls.Call(ctx, func(context.Context, *session.Session) error { return nil })
}

// read reads VMs, folders and recent tasks in one call. What is gone is left out if there are several.
func (r *freshReads) read(ctx context.Context, refs []types.ManagedObjectReference) (a freshAnswer, err error) {
	err = r.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
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

// freshSpec reads what Folder and VM return, of those among refs.
func freshSpec(refs []types.ManagedObjectReference) types.PropertyFilterSpec {
	spec := types.PropertyFilterSpec{
		PropSet: []types.PropertySpec{
			{Type: "Folder", PathSet: []string{"name", "parent", "childEntity"}},
			{Type: "VirtualMachine", PathSet: []string{stamp.Path, "config.instanceUuid", "config.changeVersion", "config.files.vmPathName",
				"config.version", "config.changeTrackingEnabled", "config.hardware.device", "runtime.powerState", "rootSnapshot"}},
		},
		ReportMissingObjectsInResults: types.NewBool(len(refs) > 1),
	}
	for i, ref := range refs {
		if ref != recentTasks && !slices.Contains(refs[:i], ref) {
			spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
		}
	}
	return spec
}
