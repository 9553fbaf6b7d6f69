package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// viewPatience is how long the stream of changes may take to tell of one.
const viewPatience = time.Minute

// trialView is a stream of changes of what is in the scratch folder, made as that of the server.
type trialView struct {
	s       *session.Session
	pc      types.ManagedObjectReference
	version string
	in      map[types.ManagedObjectReference]bool
}

// watch begins to follow what is in the scratch folder.
func (t *trial) watch(ctx context.Context) bool {
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
	if err != nil {
		t.failed("deep: stream of changes", err)
		return false
	}
	return true
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
		w.version = res.Returnval.Version
		for _, filter := range res.Returnval.FilterSet {
			for _, o := range filter.ObjectSet {
				if w.in[o.Obj] = true; o.Kind == types.ObjectUpdateKindLeave {
					delete(w.in, o.Obj)
				}
			}
		}
	}
	return nil
}

// seen looks whether the stream tells of the new VM.
func (t *trial) seen(ctx context.Context) bool {
	const check = "deep: new VM in view"
	if err := t.view.until(ctx, func() bool { return t.view.in[t.vm] }); err != nil {
		t.failed(check, err)
		return true
	}
	t.ok(check, "the stream of changes tells of %s", t.vm.Value)
	return true
}

// destroy destroys the VM, and looks whether it leaves the stream, and is gone for a read of its moRef.
func (t *trial) destroy(ctx context.Context) bool {
	const check = "deep: destroyed VM"
	t.progress("destroying %s", trialName)
	vm := t.vm
	if err := t.remove(vm); err != nil {
		t.failed(check, err)
		return true
	}
	if err := t.view.until(ctx, func() bool { return !t.view.in[vm] }); err != nil {
		t.failed(check, err)
		return true
	}
	_, _, err := t.readTrial(ctx, vm)
	if vcfault.MissingObject(err) != vm {
		t.add(check, Fail, "a read of its moRef is not answered by ManagedObjectNotFound", "members that are gone would never count as gone: tell the project, with the vCenter's version")
		return true
	}
	t.ok(check, "it left the stream of changes, and %s is ManagedObjectNotFound", vm.Value)
	return true
}

// remove powers a VM off if it is on, and destroys it. With a VM go the disks that are attached to it: it stays if one of
// them was not made by its clone.
func (t *trial) remove(vm types.ManagedObjectReference) error {
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

// filesOf are the files of disks.
func filesOf(devices []types.BaseVirtualDevice) map[string]bool {
	files := map[string]bool{}
	for _, disk := range disks.In(devices) {
		files[disks.File(disk)] = true
	}
	return files
}

// sweep removes all that the trial made, and nothing else: its VMs, and the scratch folder once that is empty.
func (t *trial) sweep(name string) {
	if t.taken {
		return // nothing was made
	}
	const check = "deep: clean-up"
	t.progress("cleaning up")
	err := t.awaitClones()
	var left []string
	for try := 0; try < 3 && (try == 0 && err == nil || try > 0 && session.Sleep(t.end, time.Second)); try++ {
		if left, err = t.sweepOnce(name); err == nil && len(left) == 0 {
			t.ok(check, "nothing is left")
			return
		}
	}
	what := t.path
	if len(left) > 0 {
		what += " with " + vcfault.FirstFew(left)
	}
	seen := "left in vCenter: " + what
	if err != nil {
		seen += " (" + vcfault.Classify("", err).Message + ")"
	}
	t.add(check, Fail, seen, fmt.Sprintf("remove the folder %q by hand, and the VM %s in it", t.path, trialName))
}

// awaitClones waits, if vCenter's answer to a clone was lost, until all clones of our user have ended that ran when it began:
// that one may be among them, and its VM cannot be seen before.
func (t *trial) awaitClones() error {
	if !t.unsure {
		return nil
	}
	t.progress("waiting for the clones that run now, for vCenter's answer to one was lost")
	var awaited []string
	for known, failures := false, 0; ; {
		var running []string
		err := t.v.Call(t.end, func(ctx context.Context, s *session.Session) (err error) {
			running, err = tasks.Clones(ctx, s)
			return err
		})
		switch {
		case err != nil:
			if failures++; failures > 60 {
				return err
			}
		case !known:
			awaited, known = running, true
		default:
			awaited = slices.DeleteFunc(awaited, func(task string) bool { return !slices.Contains(running, task) })
		}
		if known && len(awaited) == 0 {
			return nil
		}
		session.Sleep(t.end, time.Second)
	}
}

// sweepOnce gives the names of what is left in the scratch folder and is not the trial's. Folder and VMs are known by their
// moRefs, wherever somebody put them; only where the reply to the folder's making was lost, by its name.
func (t *trial) sweepOnce(name string) (left []string, err error) {
	folder := t.scratch
	if folder.Value == "" {
		if folder, err = t.v.Child(t.end, t.at.Root, name); err != nil || folder.Value == "" {
			return nil, err
		}
	}
	children, err := t.children(folder)
	if gone := vcfault.MissingObject(err) == folder; err != nil && !gone {
		return nil, err
	}
	for _, vm := range t.made {
		if !slices.Contains(children, vm) {
			children = append(children, vm)
		}
	}
	for _, child := range children {
		own, err := t.owns(child)
		if err == nil && own {
			err = t.remove(child)
		} else if err == nil {
			left = append(left, child.Value)
		}
		if err != nil && vcfault.MissingObject(err) != child {
			return nil, err
		}
	}
	if len(left) > 0 {
		return left, nil
	}
	return nil, t.removeFolder(folder)
}

// owns reports whether the trial made a VM. A copy of one bears its stamp, too, but was not made here, and has another
// instanceUuid.
func (t *trial) owns(child types.ManagedObjectReference) (bool, error) {
	if child.Type != session.VMType {
		return false, nil
	}
	stamp, instance, err := t.readTrial(t.end, child)
	return t.stamp != "" && stamp == t.stamp && (instance == t.id || slices.Contains(t.made, child)), err
}

// removeFolder removes the scratch folder, if it is empty. That it is gone is as good.
func (t *trial) removeFolder(folder types.ManagedObjectReference) error {
	children, err := t.children(folder)
	if vcfault.MissingObject(err) == folder {
		return nil
	}
	if err != nil || len(children) > 0 {
		return errStill(err, children)
	}
	err = t.task(func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.UnregisterAndDestroy_Task(ctx, s.Vim, &types.UnregisterAndDestroy_Task{This: folder})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil && vcfault.MissingObject(err) != folder {
		return err
	}
	if _, err = t.children(folder); vcfault.MissingObject(err) != folder {
		return errStill(err, []types.ManagedObjectReference{folder})
	}
	return nil
}

func errStill(err error, children []types.ManagedObjectReference) error {
	if err != nil {
		return err
	}
	var names []string
	for _, c := range children {
		names = append(names, c.Value)
	}
	return vcfault.New(vcfault.ReasonInternal, false, "%s is still there", strings.Join(names, ", "))
}

// children reads what is in a folder now.
func (t *trial) children(folder types.ManagedObjectReference) (all []types.ManagedObjectReference, err error) {
	err = t.v.Call(t.end, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, folder, "childEntity")
		if o.Withheld {
			return vcfault.New(vcfault.ReasonMissingPrivilege, true, "what is in the scratch folder cannot be seen: grant System.View on it")
		}
		all = session.Prop[types.ArrayOfManagedObjectReference](o, "childEntity").ManagedObjectReference
		return err
	})
	return all, err
}
