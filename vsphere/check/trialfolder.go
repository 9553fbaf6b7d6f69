package check

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// otherName is the name of the folder in the scratch folder, and copyName that of the VM's copy.
	otherName = "vmgroup-check-folder"
	copyName  = "vmgroup-check-copy"
	// copyKey marks the copy as the trial's.
	copyKey = trialKey + ".copy"
)

// makeOther creates two folders with one name at once: a group's folder must be unique, because it reserves the names of the members.
func (t *trial) makeOther(context.Context) outcome {
	type end struct {
		ref types.ManagedObjectReference
		err error
	}
	ends := make(chan end, 2)
	for range 2 {
		go func() { ref, err := t.createFolder(t.scratch, otherName); ends <- end{ref, err} }()
	}
	a, b := <-ends, <-ends
	if a.err != nil {
		a, b = b, a
	}
	t.other, t.folders = a.ref, []types.ManagedObjectReference{a.ref, b.ref}
	switch {
	case a.err != nil:
		return failedBy(a.err)
	case b.err == nil:
		return refuted("vCenter created two folders with one name in one folder", "a group would have two folders and two VMs with one ordinal: do not use this server here")
	case !vcfault.Has[*types.DuplicateName](b.err):
		return failedBy(b.err)
	}
	return confirmed("one folder, DuplicateName for the other")
}

// otherFolder returns what takenName and fullFolder lack.
func otherFolder(t *trial, _ context.Context) string {
	if t.other.Value == "" {
		return "needs a folder in the scratch folder, which could not be created"
	}
	return ""
}

func (t *trial) move(into types.ManagedObjectReference) error {
	_, err := t.task(func(ctx context.Context, s *session.Session) (*object.Task, error) {
		return object.NewFolder(s.Vim, into).MoveInto(ctx, []types.ManagedObjectReference{t.vm})
	})
	return err
}

// takenName tries to rename and move the VM to names in use.
func (t *trial) takenName(context.Context) outcome {
	const consequence = "two VMs with one ordinal could exist"
	switch err := t.reconfigure(types.VirtualMachineConfigSpec{Name: otherName}); {
	case err == nil:
		_ = t.reconfigure(types.VirtualMachineConfigSpec{Name: trialName}) // the clean-up finds it by its moRef
		return refuted("a VM was renamed to a name in use in its folder", consequence)
	case !vcfault.Has[*types.DuplicateName](err):
		return failedBy(err)
	}
	holder, err := t.createFolder(t.other, trialName)
	if err != nil {
		return failedBy(err)
	}
	t.folders = append(t.folders, holder)
	moved := t.move(t.other)
	if moved == nil {
		err = t.move(t.scratch)
	}
	if gone := t.removeFolder(holder); err == nil {
		err = gone
	}
	switch {
	case moved == nil:
		return refuted("a VM was moved into a folder in which its name is in use", consequence)
	case !vcfault.Has[*types.DuplicateName](moved):
		return failedBy(moved)
	case err != nil:
		return failedBy(err)
	}
	return confirmed("DuplicateName for a rename and a move to a name in use")
}

// fullFolder removes a folder that contains the VM, and registers the VM again from its files, which must still exist.
func (t *trial) fullFolder(ctx context.Context) outcome {
	if err := t.powerOff(t.vm); err != nil {
		return failedBy(err)
	}
	var file string
	var host types.ManagedObjectReference
	_, err := t.read(t.end, t.vm, session.To("config.files.vmPathName", &file), session.To("runtime.host", &host))
	if err == nil {
		err = t.move(t.other)
	}
	if err != nil {
		return failedBy(err)
	}
	t.last, t.parked = host, file // without DRS, registration needs the host
	if err := t.unregisterAndDestroy(t.other); err != nil {
		t.parked = ""
		if back := t.move(t.scratch); vcfault.MissingObject(back).Value != "" {
			t.parked = file // the VM is unregistered although the reply was lost
		}
		return failedBy(err)
	}
	t.unregistered, t.other = t.vm, types.ManagedObjectReference{}
	if err := t.register(); err != nil {
		return refuted(fmt.Sprintf("the VM could not be registered again from its files (%s)", vcfault.Classify("", err).Message),
			"a VM moved into a group's folder during its removal would be lost").with(Facts{"registered": yes(false)})
	}
	stamp, instance, err := t.readTrial(ctx, t.vm)
	facts := Facts{"registered": yes(true), "sameMoRef": yes(t.vm == t.unregistered), "sameStamp": yes(stamp == t.stamp), "sameInstanceUUID": yes(instance == t.id)}
	switch {
	case err != nil:
		return failedBy(err)
	case stamp != t.stamp || instance != t.id:
		return refuted("after registration, the VM has another stamp or instanceUuid", "returning members would not be recognized").with(facts)
	}
	return confirmed("its files stayed, and after registration it has its stamp and instanceUuid%s", map[bool]string{true: " and a new moRef"}[t.vm != t.unregistered]).with(facts)
}

// register registers the parked VM in the scratch folder.
func (t *trial) register() error {
	info, err := t.task(func(ctx context.Context, s *session.Session) (*object.Task, error) {
		return object.NewFolder(s.Vim, t.scratch).RegisterVM(ctx, t.parked, trialName, false, object.NewResourcePool(s.Vim, *t.spec.Location.Pool), object.NewHostSystem(s.Vim, t.last))
	})
	if err == nil {
		t.vm, _ = info.Result.(types.ManagedObjectReference)
		t.parked, t.made = "", append(t.made, t.vm)
	}
	return err
}

func (t *trial) unregisterAndDestroy(folder types.ManagedObjectReference) error {
	_, err := t.task(func(ctx context.Context, s *session.Session) (*object.Task, error) {
		res, err := methods.UnregisterAndDestroy_Task(ctx, s.Vim, &types.UnregisterAndDestroy_Task{This: folder})
		if err != nil {
			return nil, err
		}
		return object.NewTask(s.Vim, res.Returnval), nil
	})
	return err
}

// copy clones the VM as an operator might: the copy has the same stamp, and only its instanceUuid distinguishes it from the member.
func (t *trial) copy(ctx context.Context) outcome {
	if err := t.powerOff(t.vm); err != nil {
		return failedBy(err)
	}
	t.progress("cloning %s", trialName)
	e := t.clone(t.vm, copyName, types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: t.spec.Location.Pool, Datastore: t.spec.Location.Datastore},
		Config:   &types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: copyKey, Value: t.id}}},
	})
	if e.err != nil {
		return failedBy(e.err)
	}
	stamp, instance, err := t.readTrial(ctx, e.vm)
	if t.copied = e.vm; twoVMs(t, ctx) != "" { // the next experiment does not need it
		if gone := t.removeCopy(); err == nil {
			err = gone
		}
	}
	facts := Facts{"sameStamp": yes(stamp == t.stamp), "sameInstanceUUID": yes(instance == t.id)}
	switch {
	case err != nil:
		return failedBy(err)
	case instance == t.id || instance == "":
		return refuted("a copy of the VM has its instanceUuid", "operators' copies of members would be mistaken for members and destroyed").with(facts)
	case stamp != t.stamp:
		return confirmed("another instanceUuid, no stamp").with(facts)
	}
	return confirmed("another instanceUuid, the same stamp").with(facts)
}
