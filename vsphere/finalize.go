package vsphere

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// confirmGone reads everything afresh. A clone outlives the process that started it and is invisible until it is
// registered, so the tasks are looked at first: a clone that is not among them any more had ended before, and its
// VM is in the read that begins afterwards.
func (v *VCenter) confirmGone(ctx context.Context, ref plan.Ref, a plan.Action) error {
	if err := v.noCloneUnderWay(ctx, ref, a.Since); err != nil {
		return err
	}
	// The rules are read, too: another replica may have made some for the group since we looked.
	if err := v.reader.ScanWithClusters(ctx); err != nil {
		return err
	}
	if names := v.inventory.MemberNames(ref.UID); len(names) > 0 {
		return vcfault.New(plan.ReasonRemoving, false, "vCenter still has %s.", vcfault.FirstFew(names))
	}
	return nil
}

// removeFolder removes the group's folder if a fresh read shows it empty. UnregisterAndDestroy_Task takes a VM that
// slips in at the last moment off the inventory and leaves it its disks; Destroy_Task would delete them.
func (v *VCenter) removeFolder(ctx context.Context, ref plan.Ref, a plan.Action) error {
	if err := v.noCloneUnderWay(ctx, ref, a.Since); err != nil {
		return err
	}
	folder := inventory.FolderRef(a.MoRef)
	if err := v.reader.Read(ctx, folder); err != nil {
		return err
	}
	if v.inventory.IsGone(a.MoRef) {
		return nil
	}
	if !v.inventory.IsFolderOf(a.MoRef, ref) {
		return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The folder of %s was renamed or moved, so it was not removed.", ref)
	}
	if err := v.empty(ctx, ref, folder); err != nil {
		if vcfault.Classify("", err).Reason == plan.ReasonFolderHoldsStranger {
			v.clones.forget(ref.UID) // the folder stays, so a clone that another replica begins from now on can land
		}
		return err
	}
	namespace := v.inventory.NamespaceFolder(a.MoRef)
	_, err := v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.UnregisterAndDestroy_Task(ctx, s.Vim, &types.UnregisterAndDestroy_Task{This: folder})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil && vcfault.MissingObject(err) != folder {
		return v.keptFolder(ref, err)
	}
	gone := []types.ManagedObjectReference{folder}
	if quarantine := v.inventory.Below(a.MoRef, plan.QuarantineFolder); quarantine != "" {
		gone = append(gone, inventory.FolderRef(quarantine))
	}
	if err := v.reader.Read(ctx, gone...); err != nil {
		return err
	}
	v.leaveNamespace(ctx, ref, namespace)
	return nil
}

// empty tells, by a fresh read, that nothing is in the group's folder but an empty quarantine.
func (v *VCenter) empty(ctx context.Context, ref plan.Ref, folder types.ManagedObjectReference) error {
	found, err := v.inside(ctx, ref, folder)
	if err != nil {
		return err
	}
	quarantine := inventory.FolderRef(v.inventory.Below(folder.Value, plan.QuarantineFolder))
	if slices.Contains(found, quarantine) {
		kept, err := v.inside(ctx, ref, quarantine)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(x types.ManagedObjectReference) bool { return x == quarantine })
		found = append(found, kept...)
	}
	var unmanaged []string
	for _, child := range found {
		m, path, told := v.inventory.Holder(child.Value)
		switch {
		case m != nil && m.Stamp.UID == ref.UID, m == nil && !told:
			return vcfault.New(plan.ReasonRemoving, false, "A VM of the group is still in its folder; it is removed first.")
		default:
			unmanaged = append(unmanaged, path)
		}
	}
	if len(unmanaged) == 0 {
		return nil
	}
	slices.Sort(unmanaged)
	return vcfault.New(plan.ReasonFolderHoldsStranger, false, "The group's folder holds what is not the group's (%s): move it elsewhere, and the folder is removed.", vcfault.FirstFew(unmanaged))
}

// inside reads what is in a folder, and each of that; nothing if the folder is gone.
func (v *VCenter) inside(ctx context.Context, ref plan.Ref, folder types.ManagedObjectReference) (children []types.ManagedObjectReference, err error) {
	err = v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, folder, "childEntity")
		if err != nil {
			return err
		}
		children = session.Prop[types.ArrayOfManagedObjectReference](o, "childEntity").ManagedObjectReference // an empty list may be left out
		if !o.Told || o.Withheld {
			return vcfault.New(vcfault.ReasonMissingPrivilege, true, "What is in the folder of %s cannot be seen: grant the privilege System.View on it.", ref)
		}
		return nil
	})
	if vcfault.MissingObject(err) == folder || err == nil && len(children) == 0 {
		return nil, nil
	}
	if err == nil {
		err = v.reader.Read(ctx, children...)
	}
	return children, err
}

// noCloneUnderWay reports whether none of those clones is queued or running any more that were when it was asked for
// this group first. A task does not name its destination, so any clone of our user may be the group's. Which ones
// are older than the end of the group is told by that first list, and by no clock. A group that is no longer selected may
// be so several times: another since begins a list again.
func (v *VCenter) noCloneUnderWay(ctx context.Context, ref plan.Ref, since time.Time) error {
	var running []string
	err := v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		running, err = tasks.Clones(ctx, s)
		return err
	})
	if err != nil {
		return err
	}
	if left := v.clones.left(ref.UID, since, running); left > 0 {
		return vcfault.New(vcfault.ReasonCloneUnderWay, false, "Clones that may be this group's are still under way in vCenter; it is waited for them.")
	}
	return nil
}

// clones remembers, for each group that ends, the clones it has to wait for.
type clones struct {
	mu      sync.Mutex
	awaited map[apitypes.UID]olderClones
}

// olderClones are the tasks of the clones to wait for, as they were listed first for that since.
type olderClones struct {
	since time.Time
	tasks []string
}

// clonesMax bounds the groups that are remembered. One that was forgotten begins again.
const clonesMax = 1024

func newClones() *clones { return &clones{awaited: map[apitypes.UID]olderClones{}} }

// forget has the clones that are waited for listed again when it is asked for the group next. A list is enough only where the
// folder goes: whatever begins after it has nowhere to land. Where the folder stays, the end waits for the leases of other
// replicas, and then for the clones that these have begun.
func (c *clones) forget(uid apitypes.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.awaited, uid)
}

// left is how many of the clones that ran when it was first asked for a group, and that since, are still running.
func (c *clones) left(uid apitypes.UID, since time.Time, running []string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.awaited[uid]
	if !known || !was.since.Equal(since) {
		for old := range c.awaited {
			if len(c.awaited) < clonesMax {
				break
			}
			delete(c.awaited, old)
		}
		was.tasks = running
	}
	var still []string
	for _, task := range was.tasks {
		if slices.Contains(running, task) {
			still = append(still, task)
		}
	}
	c.awaited[uid] = olderClones{since, still}
	return len(still)
}
