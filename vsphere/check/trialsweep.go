package check

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// filesOf returns the files of disks.
func filesOf(devices []types.BaseVirtualDevice) map[string]bool {
	files := map[string]bool{}
	for _, disk := range disks.In(devices) {
		files[disks.File(disk)] = true
	}
	return files
}

// sweepTimeout limits the time of the clean-up, besides that of running clones: a reply may have been lost, and its task still run.
const sweepTimeout = time.Minute

// sweep removes exactly what the trial created: its disk, its VMs, its DRS VM group, and the scratch folder once it is empty.
func (t *trial) sweep(name string) {
	if t.taken {
		return // nothing was created
	}
	const check = "deep: clean-up"
	t.progress("cleaning up")
	var left []string
	err := t.awaitClones()
	if err == nil {
		again := false
		within(t.end, sweepTimeout, func(context.Context) bool {
			if left, err = t.sweepOnce(name); err == nil || vcfault.Has[*types.MethodNotFound](err) { // a simulator may lack a method
				return true
			}
			if !again {
				again = true
				t.progress("trying again to clean up, for up to %s: %s", sweepTimeout, vcfault.Classify("", err).Message)
			}
			return false
		})
	}
	if err == nil && len(left) == 0 {
		t.ok(check, "nothing is left")
		return
	}
	seen, advice := "left in vCenter: "+t.path, fmt.Sprintf("remove the folder %q and the VM %s in it by hand", t.path, trialName)
	if len(left) > 0 {
		seen += " with " + vcfault.FirstFew(left)
	}
	if t.parked != "" {
		seen += ", and, if they still exist, the files in " + path.Dir(t.parked)
	}
	if t.disk.made.ID != "" {
		seen += fmt.Sprintf(", and the first-class disk %s, %s", t.disk.made.ID, t.disk.made.File)
	}
	if t.vmGroup.name != "" {
		if found, unread := t.findVMGroup(t.end); found != nil || unread != nil {
			seen += fmt.Sprintf(", and the DRS VM group %q of the cluster", t.vmGroup.name)
		}
	}
	if t.rules.name != "" {
		seen += fmt.Sprintf(", and the DRS rules and groups %q of the cluster", t.rules.name)
	}
	if err != nil {
		seen += " (" + vcfault.Classify("", err).Message + ")"
	}
	t.add(check, Fail, seen, advice)
}

// awaitClones waits, if the reply to a clone call was lost, until all running clones of the account have ended: that clone may be among
// them, and its VM is invisible until its end.
func (t *trial) awaitClones() error {
	if !t.unsure {
		return nil
	}
	t.progress("waiting for all running clones, because vCenter's reply to one was lost")
	awaited, err := t.runningClones()
	for err == nil && len(awaited) > 0 {
		session.Sleep(t.end, time.Second)
		var running []string
		if running, err = t.runningClones(); err == nil {
			awaited = slices.DeleteFunc(awaited, func(task string) bool { return !slices.Contains(running, task) })
		}
	}
	return err
}

// runningClones returns the account's running clones.
func (t *trial) runningClones() (running []string, err error) {
	within(t.end, sweepTimeout, func(ctx context.Context) bool {
		err = t.v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
			running, err = tasks.Clones(ctx, s)
			return err
		})
		return err == nil
	})
	return running, err
}

// sweepOnce returns the names of foreign objects left in the scratch folder. It finds folder and VMs by moRef, even if they were moved; by
// name only if the reply to the creation of the folder was lost.
func (t *trial) sweepOnce(name string) (left []string, err error) {
	if err := t.bringBack(); err != nil {
		return nil, err
	}
	if err := t.sweepDisk(); err != nil {
		return nil, err
	}
	if err := t.sweepVMGroup(); err != nil {
		return nil, err
	}
	if err := t.sweepRules(); err != nil {
		return nil, err
	}
	folder := t.scratch
	if folder.Value == "" {
		if folder, err = t.v.Child(t.end, t.at.Root, name); err != nil || folder.Value == "" {
			return nil, err
		}
	}
	return t.sweepFolder(folder, t.made...)
}

// bringBack registers a parked VM, so that it can be destroyed.
func (t *trial) bringBack() error {
	if t.parked == "" {
		return nil
	}
	err := t.register()
	children, _ := t.children(t.scratch)
	for _, child := range children { // it is registered, but the reply was lost
		if own, _ := t.owns(child); own {
			t.parked, err = "", nil
		}
	}
	return err
}

// sweepFolder removes a folder with its contents, and the VMs of also, wherever they are. It returns the names of foreign objects and keeps
// the folders that contain them.
func (t *trial) sweepFolder(folder types.ManagedObjectReference, also ...types.ManagedObjectReference) (left []string, err error) {
	children, err := t.children(folder)
	if gone := vcfault.MissingObject(err) == folder; err != nil && !gone {
		return nil, err
	}
	for _, vm := range also {
		if !slices.Contains(children, vm) {
			children = append(children, vm)
		}
	}
	for _, child := range children {
		own, err := t.owns(child)
		if err == nil && own && child.Type == folder.Type {
			var inside []string
			inside, err = t.sweepFolder(child)
			left = append(left, inside...)
		} else if err == nil && own {
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

// owns reports whether the trial created a VM, or a folder in the scratch folder. An operator's copy of the VM has its stamp but another
// instanceUuid, and its moRef is not recorded. A folder whose creation's reply was lost is known by its name.
func (t *trial) owns(child types.ManagedObjectReference) (bool, error) {
	switch child.Type {
	case session.VMType:
	case t.scratch.Type:
		if slices.Contains(t.folders, child) {
			return true, nil
		}
		var name string
		_, err := t.read(t.end, child, session.To("name", &name))
		return name == otherName || name == trialName, err
	default:
		return false, nil
	}
	stamp, instance, err := t.readTrial(t.end, child)
	ours := t.stamp != "" && stamp == t.stamp
	switch {
	case err != nil:
		return false, err
	case slices.Contains(t.made, child):
		return ours || instance == t.id, nil
	case !ours || instance == t.id || !t.unsure:
		return ours && instance == t.id, nil
	}
	mark, _, err := t.option(t.end, child, copyKey) // it may be the trial's copy
	return mark == t.id, err
}

// removeFolder removes a folder if it is empty. It succeeds if the folder is already gone.
func (t *trial) removeFolder(folder types.ManagedObjectReference) error {
	children, err := t.children(folder)
	if err == nil && len(children) > 0 {
		return vcfault.ForRetry(vcfault.ReasonInternal, "%s is not empty", folder.Value)
	}
	if err == nil {
		err = t.unregisterAndDestroy(folder)
	}
	if vcfault.MissingObject(err) == folder {
		return nil
	}
	return err
}

// children returns the current contents of a folder.
func (t *trial) children(folder types.ManagedObjectReference) (all []types.ManagedObjectReference, err error) {
	err = t.v.Call(t.end, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, folder, session.Refs("childEntity", &all))
		if o.Withheld {
			return vcfault.ForOperator(vcfault.ReasonMissingPrivilege, "the contents of the scratch folder are not visible: grant System.View on it")
		}
		return err
	})
	return all, err
}
