// This file ends a group: it confirms that no VM is left, and removes its folder.

package vsphere

import (
	"context"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// groupRemoval is a step that ends a group whose members are gone.
type groupRemoval struct{ *step }

const (
	// confirmEvery is how often groups are confirmed to be gone while no others may be about to follow.
	confirmEvery = 50 * time.Millisecond
	// confirmSeldom is how often while other groups may be about to follow; where a read takes long, it is confirmRest times as long as
	// that, up to confirmMost.
	confirmSeldom, confirmRest, confirmMost = time.Second, 10, 10 * time.Second
)

// confirmGone reads everything again. A clone outlives the process that started it and is invisible until it is
// registered, so it looks at the tasks first: a clone that is no longer among them has ended, and the read that begins
// afterwards has its VM. Groups that go at the same time do so together: reading everything is one call for all of them.
// It lists the clones before it waits for that, or the removal of the folder did: one that begins later has no folder to land in, and is
// not waited for.
func (g groupRemoval) confirmGone(ctx context.Context) error {
	if err := g.noCloneRunning(ctx, plan.ArgsOf[plan.ConfirmArgs](g.action.Args).Since); err != nil {
		return err
	}
	for seldom := nextOf(min(max(confirmSeldom, confirmRest*time.Duration(g.scanTook.Load())), confirmMost)); ; {
		if !session.Sleep(ctx, time.Until(nextOf(confirmEvery))) {
			return ctx.Err()
		}
		if !time.Now().Before(seldom) || !g.inFlight.Removing() {
			break
		}
	}
	began := time.Now()
	// It reads the rules, too: another replica may have made some for the group since.
	if err := g.reader.ScanWithClusters(ctx); err != nil {
		return err
	}
	g.scanTook.Store(int64(time.Since(began)))
	if names := g.inventory.MemberNames(g.ref.UID); len(names) > 0 {
		return vcfault.ForRetry(plan.ReasonRemoving, "vCenter still has %s.", vcfault.FirstFew(names))
	}
	return nil
}

// nextOf returns the next of the times that are that long apart.
func nextOf(every time.Duration) time.Time { return time.Now().Truncate(every).Add(every) }

// removeFolder removes the group's folder if a fresh read shows it empty.
func (g groupRemoval) removeFolder(ctx context.Context) error {
	if err := g.noCloneRunning(ctx, plan.ArgsOf[plan.ConfirmArgs](g.action.Args).Since); err != nil {
		return err
	}
	folder := inventory.FolderRef(g.action.MoRef)
	now, err := g.readFolder(ctx, folder)
	if vcfault.MissingObject(err) == folder {
		return g.reader.Read(ctx, folder)
	}
	if err != nil {
		return err
	}
	if !g.inventory.IsFolderOf(now.Name, now.Parent, g.ref) {
		return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "The folder of %s was renamed or moved, so it was not removed.", g.ref)
	}
	if err := g.checkEmpty(ctx, folder, now.Children); err != nil {
		if vcfault.Classify("", err).Reason == plan.ReasonFolderHoldsStranger {
			g.clones.Forget(g.ref.UID) // the folder stays, so a clone that another replica begins from now on can land
		}
		return err
	}
	folders := withQuarantine(folder, g.inventory.Below(g.action.MoRef, plan.QuarantineFolder))
	err = g.unregisterAndDestroy(ctx, folders...)
	if vcfault.MissingObject(err) == folder { // somebody else has removed it
		err = g.reader.Read(ctx, folders...)
	}
	if err != nil {
		return g.explainRefusal(err)
	}
	return nil
}

// checkEmpty checks, by fresh reads, that what was found in the group's folder is nothing but an empty quarantine.
func (g groupRemoval) checkEmpty(ctx context.Context, folder types.ManagedObjectReference, found []types.ManagedObjectReference) error {
	quarantine := inventory.FolderRef(g.inventory.Below(folder.Value, plan.QuarantineFolder))
	if at := slices.Index(found, quarantine); at >= 0 {
		kept, err := g.readFolder(ctx, quarantine)
		if err != nil && vcfault.MissingObject(err) != quarantine {
			return err
		}
		found = slices.Concat(found[:at], found[at+1:], kept.Children)
	}
	if len(found) > 0 {
		if err := g.reader.Read(ctx, found...); err != nil {
			return err
		}
	}
	var unmanaged []string
	for _, child := range found {
		m, path, known := g.inventory.Holder(child.Value)
		if m != nil && m.Stamp.UID == g.ref.UID || m == nil && !known {
			return vcfault.ForRetry(plan.ReasonRemoving, "A VM of the group is still in the folder; the server removes the VM first.")
		}
		unmanaged = append(unmanaged, path)
	}
	if len(unmanaged) == 0 {
		return nil
	}
	slices.Sort(unmanaged)
	return vcfault.ForRetry(plan.ReasonFolderHoldsStranger, "The group's folder contains other objects (%s): move them elsewhere, and the folder is removed.", vcfault.FirstFew(unmanaged))
}

// readFolder reads a folder whose content must be seen.
func (g groupRemoval) readFolder(ctx context.Context, folder types.ManagedObjectReference) (freshFolder, error) {
	now, err := g.freshFolder(ctx, folder)
	if err == nil && !now.Seen {
		err = vcfault.ForOperator(vcfault.ReasonMissingPrivilege, "The content of the folder of %s cannot be seen: grant the privilege System.View on it.", g.ref)
	}
	return now, err
}

// noCloneRunning checks that none of the clones that were queued or running at its first call for this group
// is any more. A task does not name its destination, so any clone of our user may be the group's that this process has not begun for another
// group. That first list, and no clock, tells which ones are older than the end of the group. A group may stop being selected several
// times: another since begins a new list. Where all of that list have ended, no call asks again.
func (g groupRemoval) noCloneRunning(ctx context.Context, since time.Time) error {
	if g.clones.Ended(g.ref.UID, since) {
		return nil
	}
	began := time.Now()
	running, err := g.recentClones(ctx)
	if err != nil {
		return err
	}
	if left := g.clones.Left(g.ref.UID, since, began, running); left > 0 {
		return vcfault.ForRetry(vcfault.ReasonCloneRunning, "Clones that may be this group's are still running in vCenter; the server waits for them.")
	}
	return nil
}

// withQuarantine returns a folder and the quarantine in it, if it has one.
func withQuarantine(folder types.ManagedObjectReference, quarantine string) []types.ManagedObjectReference {
	if quarantine == "" {
		return []types.ManagedObjectReference{folder}
	}
	return []types.ManagedObjectReference{folder, inventory.FolderRef(quarantine)}
}

// unregisterAndDestroy removes the first of these folders, and the others that are in it. If a VM gets into it at the last moment,
// UnregisterAndDestroy_Task only unregisters that VM and keeps its disks. Destroy_Task of a vCenter would delete them. But every vCenter has
// the other method: what lacks it is govmomi's simulator, whose Destroy_Task of a folder leaves the VMs (test/plain has that).
func (g groupRemoval) unregisterAndDestroy(ctx context.Context, folders ...types.ManagedObjectReference) error {
	var vcenter string
	_, err := g.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		vcenter = s.UUID
		res, err := methods.UnregisterAndDestroy_Task(ctx, s.Vim, &types.UnregisterAndDestroy_Task{This: folders[0]})
		if err == nil {
			return res.Returnval, nil
		}
		if !vcfault.Has[*types.MethodNotFound](err) {
			return task, err
		}
		destroy, err := methods.Destroy_Task(ctx, s.Vim, &types.Destroy_Task{This: folders[0]})
		if err == nil {
			task = destroy.Returnval
		}
		return task, err
	})
	if err != nil {
		return err
	}
	gone := inventory.Reading{VCenter: vcenter}
	for _, folder := range folders {
		gone.Gone = append(gone.Gone, folder.Value)
	}
	return g.reader.Report(ctx, gone)
}

// explainRefusal turns the failure to remove an empty folder into FolderStays, if vCenter will refuse it again: a deletion does
// not wait for that, nor for an unmanaged VM in the folder. The server tries no other way: Destroy_Task needs the same
// privilege, and would delete the disks of a VM that gets into the folder.
func (g groupRemoval) explainRefusal(err error) error {
	if !vcfault.Has[types.BaseNoPermission](err) && !vcfault.Has[*types.NotSupported](err) &&
		!vcfault.Has[*types.NotImplemented](err) && !vcfault.Has[*types.MethodDisabled](err) {
		return err
	}
	g.clones.Forget(g.ref.UID) // as for a folder that contains unmanaged VMs: a later clone can land in it
	stays := vcfault.ForRetry(plan.ReasonFolderStays, "The group's folder is empty, but vCenter refuses to remove it: remove it by hand. vCenter's answer: %s",
		vcfault.Classify("", err).Message)
	stays.Err = err
	return stays
}
