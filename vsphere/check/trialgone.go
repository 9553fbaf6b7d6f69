package check

import (
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/fate"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// viewPatience is how long the stream of changes may take to tell of one.
	viewPatience = time.Minute
	// eventPatience is how long vCenter's events may take to tell of a destroy. (The server asks for longer.)
	eventPatience = 30 * time.Second
)

// trialView is a stream of changes of what is in the scratch folder, made as that of the server.
type trialView struct {
	s       *session.Session
	pc      types.ManagedObjectReference
	version string
	in      map[types.ManagedObjectReference]bool
}

// watch begins to follow what is in the scratch folder.
func (t *trial) watch(ctx context.Context) verdict {
	w := &trialView{in: map[types.ManagedObjectReference]bool{}}
	err := t.v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		made, err := methods.CreatePropertyCollector(ctx, s.Vim, &types.CreatePropertyCollector{This: s.Vim.ServiceContent.PropertyCollector})
		if err != nil {
			return err
		}
		w.s, w.pc = s, made.Returnval
		_, err = methods.CreateFilter(ctx, s.Vim, &types.CreateFilter{This: w.pc, PartialUpdates: true, Spec: s.Supported(inventory.WatchSpec(t.scratch))})
		return err
	})
	if w.s != nil {
		t.view = w
	}
	return refused(err)
}

// until follows the changes until something holds.
func (w *trialView) until(ctx context.Context, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, viewPatience)
	defer cancel()
	seconds := int32(2)
	for !holds() {
		res, err := methods.WaitForUpdatesEx(ctx, w.s.Vim, &types.WaitForUpdatesEx{This: w.pc, Version: w.version, Options: &types.WaitOptions{MaxWaitSeconds: &seconds}})
		if err != nil {
			return err
		}
		if res.Returnval == nil {
			session.Sleep(ctx, 250*time.Millisecond) // in case it did not wait
			continue
		}
		w.take(res.Returnval)
	}
	return nil
}

// take takes in what changed.
func (w *trialView) take(set *types.UpdateSet) {
	w.version = set.Version
	for _, filter := range set.FilterSet {
		for _, o := range filter.ObjectSet {
			if w.in[o.Obj] = true; o.Kind == types.ObjectUpdateKindLeave {
				delete(w.in, o.Obj)
			}
		}
	}
}

// seen looks whether the stream tells of the new VM.
func (t *trial) seen(ctx context.Context) verdict {
	if err := t.view.until(ctx, func() bool { return t.view.in[t.vm] }); err != nil {
		return refused(err)
	}
	return held("the stream of changes tells of %s", t.vm.Value)
}

// destroy destroys the VM, and looks whether it leaves the stream, and is gone for a read of its moRef.
func (t *trial) destroy(ctx context.Context) verdict {
	t.progress("destroying %s", trialName)
	vm := t.vm
	if err := t.view.until(ctx, func() bool { return t.view.in[vm] }); err != nil { // it may have been registered again
		return refused(err)
	}
	if err := t.remove(vm); err != nil {
		return refused(err)
	}
	t.gone = vm
	if err := t.view.until(ctx, func() bool { return !t.view.in[vm] }); err != nil {
		return refused(err)
	}
	_, _, err := t.readTrial(ctx, vm)
	if vcfault.MissingObject(err) != vm {
		return broken("a read of its moRef is not answered by ManagedObjectNotFound", "members that are gone would never count as gone")
	}
	return held("it left the stream of changes, and %s is ManagedObjectNotFound", vm.Value)
}

// destroyed is what events lacks.
func destroyed(t *trial, _ context.Context) string {
	if t.gone.Value == "" {
		return "the VM was not destroyed"
	}
	return ""
}

// events looks whether vCenter's events tell a VM that was destroyed from one that was unregistered.
func (t *trial) events(ctx context.Context) verdict {
	var isGone, wasGone bool
	var how, howUnregistered string
	var err error
	began := t.now()
	t.within(ctx, eventPatience, func(ctx context.Context) (bool, error) {
		err = t.v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
			isGone, how, err = fate.Witness(ctx, s, t.gone, t.began)
			if err == nil && t.unregistered.Value != "" && t.unregistered != t.gone {
				wasGone, howUnregistered, err = fate.Witness(ctx, s, t.unregistered, t.began)
			}
			return err
		})
		return err == nil && how != "" && (howUnregistered != "" || t.unregistered.Value == "" || t.unregistered == t.gone), err
	})
	facts := Facts{"told": yes(how != ""), "destroyed": yes(isGone), "tookMs": millis(t.now().Sub(began)),
		"unregisteredTold": yes(howUnregistered != ""), "unregisteredCountsAsDestroyed": yes(wasGone)}
	const consequence = "members that an operator destroys would count as vanished, and wait for an operator (MemberVanished)"
	switch {
	case wasGone:
		return broken("of the VM that was unregistered the events say: "+howUnregistered, "members that are unregistered would be cloned again, and run twice when they are back").with(facts)
	case err != nil:
		return refused(err)
	case how == "":
		return broken("vCenter has no VmRemovedEvent of the VM after "+eventPatience.String(), consequence).with(facts)
	case !isGone:
		return broken("the VmRemovedEvent is in no chain with the TaskEvent of its destroy; as the server reads it, "+how, consequence).with(facts)
	case howUnregistered == "":
		return held("%s (what they say of a VM that was unregistered was not tried)", how).with(facts)
	}
	return held("of the VM that was destroyed: %s; of the same VM before, when it was unregistered: %s", how, howUnregistered).with(facts)
}

// powerOff powers a VM off, if it is on.
func (t *trial) powerOff(vm types.ManagedObjectReference) error {
	err := t.task(func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.PowerOffVM_Task(ctx, s.Vim, &types.PowerOffVM_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil && !vcfault.AlreadyIn(err, types.VirtualMachinePowerStatePoweredOff) {
		return err
	}
	return nil
}

// remove powers a VM off if it is on, and destroys it. With a VM go the disks that are attached to it: it stays if one of
// them was not made by its clone.
func (t *trial) remove(vm types.ManagedObjectReference) error {
	if err := t.powerOff(vm); err != nil {
		return err
	}
	now, err := t.v.ReadFresh(t.end, vm)
	if err != nil {
		return err
	}
	for _, disk := range now.ForeignDisks() {
		if file := disks.File(disk); disk.VDiskId != nil || !t.disks[file] {
			return vcfault.New(vcfault.ReasonInternal, true, "%s has a disk from elsewhere, %s: detach it.", vm.Value, file)
		}
	}
	return t.task(func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.Destroy_Task(ctx, s.Vim, &types.Destroy_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
}
