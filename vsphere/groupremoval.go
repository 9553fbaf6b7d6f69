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

// groupRemoval is a step at the end of a group's deletion, when its members are gone.
type groupRemoval struct{ *step }

const (
	// confirmEvery is the interval of full reads that confirm that groups are gone, while no other deletion is about to end.
	confirmEvery = 50 * time.Millisecond
	// confirmSeldom is the interval while other deletions may be about to end, so that one read confirms several. If a read takes long, the
	// interval is confirmRest times as long as the read, up to confirmMost.
	confirmSeldom, confirmRest, confirmMost = time.Second, 10, 10 * time.Second
)

// confirmGone reads the whole inventory, and fails if a VM of the group is left. A clone outlives the process that started it, and its VM is
// invisible until it is registered, so confirmGone waits for the running clones first: the VM of a clone whose task has ended is in a read that
// begins afterwards. Groups that are deleted at the same time share one read. confirmGone, or removeFolder before it, lists the clones before it
// waits for that read: a clone that begins later finds no folder, so confirmGone does not wait for it.
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
	// The read includes the DRS rules, because another replica may have set some for the group.
	if err := g.reader.ScanWithClusters(ctx); err != nil {
		return err
	}
	g.scanTook.Store(int64(time.Since(began)))
	if names := g.inventory.MemberNames(g.ref.UID); len(names) > 0 {
		return vcfault.ForRetry(plan.ReasonRemoving, "vCenter still has %s.", vcfault.FirstFew(names))
	}
	return nil
}

// nextOf returns the next multiple of an interval.
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
			g.clones.Forget(g.ref.UID) // the folder is kept, so a clone that another replica begins from now on can land in it
		}
		return err
	}
	folders := withQuarantine(folder, g.inventory.Below(g.action.MoRef, plan.QuarantineFolder))
	err = g.unregisterAndDestroy(ctx, folders...)
	if vcfault.MissingObject(err) == folder { // another replica or an operator removed it
		err = g.reader.Read(ctx, folders...)
	}
	if err != nil {
		return g.explainRefusal(err)
	}
	g.removeEmptied(ctx, folder.Value, now.Parent)
	return nil
}

// checkEmpty checks by fresh reads that the objects found in the group's folder are no more than an empty quarantine.
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
		switch {
		case m != nil && m.Stamp.UID == g.ref.UID && !g.inventory.Evidence.IsStray(m):
			return vcfault.ForRetry(plan.ReasonRemoving, "A VM of the group is still in the folder; the server removes the VM first.")
		case m == nil && !known:
			return vcfault.ForOperator(plan.ReasonUnreachable, "The group's folder contains the VM %s, which may be the group's, and vCenter does not show its configuration: look at the VM in vCenter, and move or remove it.", child.Value)
		}
		unmanaged = append(unmanaged, path)
	}
	if len(unmanaged) == 0 {
		return nil
	}
	slices.Sort(unmanaged)
	return vcfault.ForRetry(plan.ReasonFolderHoldsStranger, "The group's folder contains other objects (%s): move them elsewhere, and the folder is removed.", vcfault.FirstFew(unmanaged))
}

// readFolder reads a folder, and fails if the server's account cannot see its content.
func (g groupRemoval) readFolder(ctx context.Context, folder types.ManagedObjectReference) (freshFolder, error) {
	now, err := g.freshFolder(ctx, folder)
	if err == nil && !now.Seen {
		err = vcfault.ForOperator(vcfault.ReasonMissingPrivilege, "vCenter does not show the content of the folder of %s: grant vCenter's user the privilege System.View on it, if it lacks that.", g.ref)
	}
	return now, err
}

// noCloneRunning checks that all clones have ended that were queued or running at its first call for this group. A task does not name its
// destination, so any clone of the server's account may be the group's, unless this process began it for another group. That first list, and not a
// clock, tells which clones are older than the end of the group. A group may stop being selected several times: another since begins a new
// list. Once all clones of the list have ended, noCloneRunning makes no call.
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
		return vcfault.ForRetry(plan.ReasonCloneRunning, "Clones that may be this group's are still running in vCenter; the server waits for them.")
	}
	return nil
}

// withQuarantine returns a folder, and its quarantine folder if there is one.
func withQuarantine(folder types.ManagedObjectReference, quarantine string) []types.ManagedObjectReference {
	if quarantine == "" {
		return []types.ManagedObjectReference{folder}
	}
	return []types.ManagedObjectReference{folder, inventory.FolderRef(quarantine)}
}

// unregisterAndDestroy removes the first of the folders; the others are in it. If a VM is moved into the folder at the last moment,
// UnregisterAndDestroy_Task only unregisters the VM and keeps its disks, while vCenter's Destroy_Task would delete them. Only govmomi's simulator
// lacks UnregisterAndDestroy_Task; its Destroy_Task of a folder keeps the VMs (test/plain).
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

// explainRefusal returns FolderStays for the failure to remove an empty folder, if vCenter would refuse it again. A deletion does not wait for that,
// nor for an unmanaged VM in the folder. The server does not try Destroy_Task, which needs the same privilege, and would delete the disks of a VM
// that is moved into the folder.
func (g groupRemoval) explainRefusal(err error) error {
	if !vcfault.Has[types.BaseNoPermission](err) && !vcfault.Has[*types.NotSupported](err) &&
		!vcfault.Has[*types.NotImplemented](err) && !vcfault.Has[*types.MethodDisabled](err) {
		return err
	}
	g.clones.Forget(g.ref.UID) // the folder is kept, so a later clone can land in it
	stays := vcfault.ForRetry(plan.ReasonFolderStays, "vCenter shows no object in the group's folder, but refuses to remove it: remove it by hand. vCenter's answer: %s",
		vcfault.Classify("", err).Message)
	stays.Err = err
	return stays
}
