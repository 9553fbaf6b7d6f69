package check

import (
	"context"
	"fmt"
	"path"

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

func (t *trial) createFolder(in types.ManagedObjectReference, name string) (made types.ManagedObjectReference, err error) {
	err = t.v.Call(t.end, func(ctx context.Context, s *session.Session) error {
		res, err := methods.CreateFolder(ctx, s.Vim, &types.CreateFolder{This: in, Name: name})
		if err == nil {
			made = res.Returnval
			t.mu.Lock()
			t.folders = append(t.folders, made)
			t.mu.Unlock()
		}
		return err
	})
	return made, err
}

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
	t.other = a.ref
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

func (t *trial) rename(name string) error {
	return t.task(func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.ReconfigVM_Task(ctx, s.Vim, &types.ReconfigVM_Task{This: t.vm, Spec: types.VirtualMachineConfigSpec{Name: name}})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
}

func (t *trial) move(into types.ManagedObjectReference) error {
	return t.task(func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.MoveIntoFolder_Task(ctx, s.Vim, &types.MoveIntoFolder_Task{This: into, List: []types.ManagedObjectReference{t.vm}})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
}

// takenName tries to rename and move the VM to names in use.
func (t *trial) takenName(context.Context) outcome {
	const consequence = "two VMs with one ordinal could exist"
	err := t.rename(otherName)
	if err == nil {
		_ = t.rename(trialName) // the clean-up finds it by its moRef
		return refuted("a VM was renamed to a name in use in its folder", consequence)
	}
	if !vcfault.Has[*types.DuplicateName](err) {
		return failedBy(err)
	}
	holder, err := t.createFolder(t.other, trialName)
	if err != nil {
		return failedBy(err)
	}
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
	now, err := t.v.ReadFresh(t.end, t.vm)
	if err == nil {
		err = t.readHost()
	}
	if err == nil {
		err = t.move(t.other)
	}
	if err != nil {
		return failedBy(err)
	}
	t.parked = now.File
	if err := t.unregisterAndDestroy(t.other); err != nil {
		t.parked = ""
		if back := t.move(t.scratch); vcfault.MissingObject(back).Value != "" {
			t.parked = now.File // its reply was lost
		}
		return failedBy(err)
	}
	t.unregistered, t.other = t.vm, types.ManagedObjectReference{}
	again, err := t.register()
	if err != nil {
		v := refuted(fmt.Sprintf("the VM could not be registered again from its files (%s)", vcfault.Classify("", err).Message), "a VM moved into a group's folder during its removal would be lost")
		return v.with(Facts{"registered": yes(false)})
	}
	stamp, instance, err := t.readTrial(ctx, again)
	facts := Facts{"registered": yes(true), "sameMoRef": yes(again == t.unregistered), "sameStamp": yes(stamp == t.stamp), "sameInstanceUUID": yes(instance == t.id)}
	switch {
	case err != nil:
		return failedBy(err)
	case stamp != t.stamp || instance != t.id:
		return refuted("after registration, the VM has another stamp or instanceUuid", "returning members would not be recognized").with(facts)
	}
	return confirmed("its files stayed, and after registration it has its stamp and instanceUuid%s", map[bool]string{true: " and a new moRef"}[again != t.unregistered]).with(facts)
}

// readHost records the VM's host: without DRS, registration needs one.
func (t *trial) readHost() error {
	x, err := t.state(t.end)
	t.last = x.host
	return err
}

// register registers the parked VM in the scratch folder.
func (t *trial) register() (vm types.ManagedObjectReference, err error) {
	info, err := t.v.Task(t.end, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.RegisterVM_Task(ctx, s.Vim, &types.RegisterVM_Task{This: t.scratch, Path: t.parked, Name: trialName, Pool: t.spec.Location.Pool, Host: &t.last})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil {
		return vm, err
	}
	vm, _ = info.Result.(types.ManagedObjectReference)
	t.vm, t.parked = vm, ""
	t.made = append(t.made, vm)
	return vm, nil
}

// copy clones the VM as an operator may: the copy has the same stamp, and only its instanceUuid distinguishes it from the member.
func (t *trial) copy(ctx context.Context) outcome {
	if err := t.powerOff(t.vm); err != nil {
		return failedBy(err)
	}
	t.progress("cloning %s", trialName)
	spec := types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: t.spec.Location.Pool, Datastore: t.spec.Location.Datastore},
		Config:   &types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: copyKey, Value: t.id}}},
	}
	began := t.now()
	e := t.clone(t.vm, copyName, spec)
	if e.err != nil {
		return failedBy(e.err)
	}
	took := t.now().Sub(began)
	stamp, instance, err := t.readTrial(ctx, e.vm)
	if gone := t.remove(e.vm); err == nil {
		err = gone
	}
	facts := Facts{"sameStamp": yes(stamp == t.stamp), "sameInstanceUUID": yes(instance == t.id), "cloneMs": millis(took)}
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

// leftFiles names the directory of an unregistered VM.
func (t *trial) leftFiles() string { return "the files in " + path.Dir(t.parked) }
