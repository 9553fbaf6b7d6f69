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

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
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

// lookUnchanged reads a member, whose configuration must not have changed since the plan.
func (st *step) lookUnchanged(ctx context.Context, m *inventory.Member) (*FreshVM, error) {
	now, err := st.ReadFresh(ctx, st.vm())
	if err == nil {
		err = check(now, st.ref, st.action)
	}
	if err == nil && now.ChangeVersion != m.ChangeVersion {
		err = changedMeanwhile()
	}
	return now, err
}

// check checks that the VM can be destroyed: it is the group's, has that ordinal, is no copy, and, unless the whole group
// goes, is still marked for it: another replica may have withdrawn the mark.
func check(x *FreshVM, ref plan.Ref, a plan.Action) error {
	has, owner := stamp.Read(x.Stamp, x.InstanceUUID, x.InstanceUUID != "" && x.File != "")
	switch {
	case owner == stamp.Unreadable:
		return vcfault.New(plan.ReasonUnreachable, false, "The configuration of %s cannot be read, so nothing was done to it.", a.VM)
	case owner != stamp.Ours || has.UID != ref.UID || has.Ordinal != a.Ordinal:
		return notOurs(a)
	case a.Marked && !(has.Marked && (fits(has.Why, a.Op) || !has.Quarantined.IsZero())):
		return wantedAfterAll(a)
	case a.Op == plan.Destroy && a.Marked && slices.ContainsFunc(plan.ArgsOf[plan.DestroyArgs](a.Args).Keeps, func(id string) bool { return !slices.Contains(plan.KeptDisks(has.Given), id) }):
		return vcfault.New(vcfault.ReasonConcurrentAccess, false, "Disks of %s have been deleted meanwhile; it stays until the status tells.", a.VM)
	case a.Op == plan.PowerOn && has.Marked:
		return chosenMeanwhile(a)
	}
	return nil
}

func chosenMeanwhile(a plan.Action) *vcfault.Error {
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "%s has been chosen to go meanwhile, so it was not powered on.", a.VM)
}

// fits reports whether a mark of that kind permits a step: a member that is only power-cycled must not be removed.
func fits(why plan.Why, op plan.Op) bool {
	return why != plan.WhyPowerCycle || op == plan.PowerOff || op == plan.ShutdownGuest
}

func wantedAfterAll(a plan.Action) *vcfault.Error {
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The mark of %s was withdrawn, so it stays.", a.VM)
}

// lookAgain reads a member again that goes because it is marked, or is powered on because it is not: another replica may
// have just withdrawn or set the mark.
func (st *step) lookAgain(ctx context.Context) (*FreshVM, error) {
	now, err := st.ReadFresh(ctx, st.vm())
	if err == nil {
		err = check(now, st.ref, st.action)
	}
	return now, err
}

// FreshVM is the state that is checked right before a step changes a VM; zero if vCenter tells nothing of it.
type FreshVM struct {
	Stamp, InstanceUUID, ChangeVersion, File string
	Power                                    types.VirtualMachinePowerState
	Devices                                  []types.BaseVirtualDevice
	// Hardware is its virtual hardware version, "vmx-19".
	Hardware string
	// Tracks reports whether changed block tracking is on, Snapshots whether it has some.
	Tracks, Snapshots bool
}

func (x *FreshVM) take(o session.Object) {
	x.InstanceUUID = session.Prop[string](o, "config.instanceUuid")
	x.ChangeVersion = session.Prop[string](o, "config.changeVersion")
	x.File = session.Prop[string](o, "config.files.vmPathName")
	x.Hardware = session.Prop[string](o, "config.version")
	x.Tracks = session.Prop[bool](o, "config.changeTrackingEnabled")
	x.Devices = session.Devices(o)
	x.Power = session.Prop[types.VirtualMachinePowerState](o, "runtime.powerState")
	x.Snapshots = len(session.Prop[types.ArrayOfManagedObjectReference](o, "rootSnapshot").ManagedObjectReference) > 0
	x.Stamp, _ = session.Only[types.OptionValue](o).Value.(string)
}

// ForeignDisks returns the disks that neither the VM's clone nor the spec gave it.
func (x *FreshVM) ForeignDisks() []*types.VirtualDisk {
	has, _ := stamp.Read(x.Stamp, x.InstanceUUID, true)
	return disks.Foreign(x.Devices, x.File, disks.Own(has.Disks, plan.DisksIn(has.Given), x.Devices))
}

// freshReads gathers the questions of steps. Its answers are read without a lease: each step asks for its own before and after.
type freshReads = batchedRead[types.ManagedObjectReference, freshAnswer]

// freshAnswer is what a call says: of VMs and folders, and of clones if a question was recentTasks.
type freshAnswer struct {
	objects []session.Object
	clones  []string // the tasks of our user's clones that are queued or running
}

// recentTasks is the question for vCenter's recent tasks, instead of a moRef.
var recentTasks = types.ManagedObjectReference{Type: "TaskManager"}

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

// freshFolder is a folder: its name, the moRef of the one that it is in, and what is in it.
type freshFolder struct {
	Name, Parent string
	Children     []types.ManagedObjectReference
	// Seen is false if our user can't see all of that.
	Seen bool
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

// freshSpec reads what ReadFresh and freshFolder return, of those among refs.
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
