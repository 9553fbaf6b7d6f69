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
	// copyKey is where the copy says that the trial made it.
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

// makeOther makes two folders of one name at once: the first group's folder of a name is the one that holds the names of its members.
func (t *trial) makeOther(context.Context) verdict {
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
		return refused(a.err)
	case b.err == nil:
		return broken("vCenter made two folders of one name in one folder", "a group would have two folders, and two VMs of one ordinal: do not use this server here")
	case !vcfault.Has[*types.DuplicateName](b.err):
		return refused(b.err)
	}
	return held("one folder, and DuplicateName for the other")
}

// otherFolder is what takenName and fullFolder lack.
func otherFolder(t *trial, _ context.Context) string {
	if t.other.Value == "" {
		return "needs a folder in the scratch folder, which could not be made"
	}
	return ""
}

func (t *trial) rename(name string) error {
	return t.task(func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.Rename_Task(ctx, s.Vim, &types.Rename_Task{This: t.vm, NewName: name})
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

// takenName renames and moves the VM onto names that others have.
func (t *trial) takenName(context.Context) verdict {
	const consequence = "two VMs of one ordinal could come to be"
	err := t.rename(otherName)
	if err == nil {
		_ = t.rename(trialName) // the clean-up knows it by its moRef
		return broken("a VM was renamed to a name that is taken in its folder", consequence)
	}
	if !vcfault.Has[*types.DuplicateName](err) {
		return refused(err)
	}
	holder, err := t.createFolder(t.other, trialName)
	if err != nil {
		return refused(err)
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
		return broken("a VM was moved into a folder in which its name is taken", consequence)
	case !vcfault.Has[*types.DuplicateName](moved):
		return refused(moved)
	case err != nil:
		return refused(err)
	}
	return held("DuplicateName for a rename and for a move onto a name that is taken")
}

// fullFolder has a folder removed that holds the VM, and registers the VM again from its files, which must have stayed.
func (t *trial) fullFolder(ctx context.Context) verdict {
	if err := t.powerOff(t.vm); err != nil {
		return refused(err)
	}
	now, err := t.v.ReadFresh(t.end, t.vm)
	if err == nil {
		err = t.readHost()
	}
	if err == nil {
		err = t.move(t.other)
	}
	if err != nil {
		return refused(err)
	}
	t.parked = now.File
	if err := t.unregisterAndDestroy(t.other); err != nil {
		t.parked = ""
		if back := t.move(t.scratch); vcfault.MissingObject(back).Value != "" {
			t.parked = now.File // the reply was lost
		}
		return refused(err)
	}
	t.unregistered, t.other = t.vm, types.ManagedObjectReference{}
	again, err := t.register()
	if err != nil {
		v := broken(fmt.Sprintf("the VM's files could not be registered again (%s)", vcfault.Classify("", err).Message), "a VM that slips into a group's folder as that is removed would be lost")
		return v.with(Facts{"registered": yes(false)})
	}
	stamp, instance, err := t.readTrial(ctx, again)
	facts := Facts{"registered": yes(true), "sameMoRef": yes(again == t.unregistered), "sameStamp": yes(stamp == t.stamp), "sameInstanceUUID": yes(instance == t.id)}
	switch {
	case err != nil:
		return refused(err)
	case stamp != t.stamp || instance != t.id:
		return broken("the VM that was registered again has another stamp or instanceUuid", "members that come back would be taken for others").with(facts)
	}
	return held("its files stayed, and registered again it has its stamp and instanceUuid%s", map[bool]string{true: ", and another moRef"}[again != t.unregistered]).with(facts)
}

// readHost notes the host that the VM is on: without DRS it has to be registered on one.
func (t *trial) readHost() error {
	x, err := t.state(t.end)
	t.last = x.host
	return err
}

// register registers the VM that is parked, in the scratch folder.
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

// copy clones the VM as an operator may: a copy has the stamp, too; only its instanceUuid differs from the member's.
func (t *trial) copy(ctx context.Context) verdict {
	if err := t.powerOff(t.vm); err != nil {
		return refused(err)
	}
	t.progress("cloning %s", trialName)
	spec := types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: t.spec.Location.Pool, Datastore: t.spec.Location.Datastore},
		Config:   &types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: copyKey, Value: t.id}}},
	}
	began := t.now()
	e := t.clone(t.vm, copyName, spec)
	if e.err != nil {
		return refused(e.err)
	}
	took := t.now().Sub(began)
	stamp, instance, err := t.readTrial(ctx, e.vm)
	if gone := t.remove(e.vm); err == nil {
		err = gone
	}
	facts := Facts{"sameStamp": yes(stamp == t.stamp), "sameInstanceUUID": yes(instance == t.id), "cloneMs": millis(took)}
	switch {
	case err != nil:
		return refused(err)
	case instance == t.id || instance == "":
		return broken("a copy of the VM has its instanceUuid", "operators' copies of members would be taken for members, and destroyed").with(facts)
	case stamp != t.stamp:
		return held("it has another instanceUuid, and no stamp").with(facts)
	}
	return held("it has another instanceUuid, and the same stamp").with(facts)
}

// leftFiles names the directory of a VM that is not in the inventory.
func (t *trial) leftFiles() string { return "the files in " + path.Dir(t.parked) }
