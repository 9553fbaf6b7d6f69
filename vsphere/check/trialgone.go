package check

import (
	"context"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/removalcause"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// viewTimeout limits the wait for a change in the stream.
	viewTimeout = time.Minute
	// eventTimeout limits the wait for the events of a destroy. (The server waits longer.)
	eventTimeout = 30 * time.Second
)

// trialView is a stream of changes in the scratch folder, created like the server's.
type trialView struct {
	s       *session.Session
	pc      types.ManagedObjectReference
	version string
	in      map[types.ManagedObjectReference]bool
}

// watch opens the stream of changes in the scratch folder.
func (t *trial) watch(ctx context.Context) outcome {
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
	return failedBy(err)
}

// until reads the stream until it has a VM, or has it no longer.
func (w *trialView) until(ctx context.Context, vm types.ManagedObjectReference, in bool) error {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	seconds := int32(2)
	for w.in[vm] != in {
		res, err := methods.WaitForUpdatesEx(ctx, w.s.Vim, &types.WaitForUpdatesEx{This: w.pc, Version: w.version, Options: &types.WaitOptions{MaxWaitSeconds: &seconds}})
		if err != nil {
			return err
		}
		if res.Returnval == nil {
			session.Sleep(ctx, 250*time.Millisecond) // the call may have returned at once
			continue
		}
		w.version = res.Returnval.Version
		for _, filter := range res.Returnval.FilterSet {
			for _, o := range filter.ObjectSet {
				w.in[o.Obj] = o.Kind != types.ObjectUpdateKindLeave
			}
		}
	}
	return nil
}

// seen checks that the stream reports the new VM.
func (t *trial) seen(ctx context.Context) outcome {
	if err := t.view.until(ctx, t.vm, true); err != nil {
		return failedBy(err)
	}
	return confirmed("the stream of changes reports %s", t.vm.Value)
}

// destroy destroys the VM and checks that it leaves the stream and that reads of its moRef fail.
func (t *trial) destroy(ctx context.Context) outcome {
	t.progress("destroying %s", trialName)
	vm := t.vm
	err := t.view.until(ctx, vm, true) // it may have a new moRef
	if err == nil {
		err = t.remove(vm)
	}
	if err == nil {
		t.gone = vm
		err = t.view.until(ctx, vm, false)
	}
	if err != nil {
		return failedBy(err)
	}
	if _, _, err := t.readTrial(ctx, vm); vcfault.MissingObject(err) != vm {
		return refuted("a read of its moRef does not return ManagedObjectNotFound", "destroyed members would never count as gone")
	}
	return confirmed("it left the stream of changes, and a read of %s returns ManagedObjectNotFound", vm.Value)
}

// destroyed returns what events lacks.
func destroyed(t *trial, _ context.Context) string {
	if t.gone.Value == "" {
		return "the VM was not destroyed"
	}
	return ""
}

// events checks whether vCenter's events distinguish a destroyed VM from an unregistered one.
func (t *trial) events(ctx context.Context) outcome {
	var isGone, wasGone bool
	var how, howUnregistered string
	var err error
	unregistered := t.unregistered.Value != "" && t.unregistered != t.gone
	within(ctx, eventTimeout, func(ctx context.Context) bool {
		err = t.v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
			isGone, how, err = removalcause.Destroyed(ctx, s, t.gone, t.began)
			if err == nil && unregistered {
				wasGone, howUnregistered, err = removalcause.Destroyed(ctx, s, t.unregistered, t.began)
			}
			return err
		})
		return err == nil && how != "" && (howUnregistered != "" || !unregistered)
	})
	facts := Facts{"told": yes(how != ""), "destroyed": yes(isGone), "unregisteredTold": yes(howUnregistered != ""), "unregisteredCountsAsDestroyed": yes(wasGone)}
	const consequence = "members destroyed by an operator would count as vanished and wait for an operator (MemberVanished)"
	switch {
	case wasGone:
		return refuted("the events report of the unregistered VM: "+howUnregistered, "unregistered members would be cloned again and run twice after their return").with(facts)
	case err != nil:
		return failedBy(err)
	case how == "":
		return refuted("vCenter has no VmRemovedEvent for the VM after "+eventTimeout.String(), consequence).with(facts)
	case !isGone:
		return refuted("the VmRemovedEvent is not chained to the TaskEvent of the destroy; the server reads it as: "+how, consequence).with(facts)
	case howUnregistered == "":
		return confirmed("%s (an unregistered VM was not tested)", how).with(facts)
	}
	return confirmed("of the destroyed VM: %s; of the same VM when it was unregistered: %s", how, howUnregistered).with(facts)
}

// remove powers a VM off and destroys it. vCenter destroys attached disks with it, so remove keeps a VM with a disk that its clone did not create.
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
			return vcfault.ForOperator(vcfault.ReasonInternal, "%s has a foreign disk, %s: detach it.", vm.Value, file)
		}
	}
	return t.do(vm, (*object.VirtualMachine).Destroy)
}
