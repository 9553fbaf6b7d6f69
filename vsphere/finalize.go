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
func (v *VCenter) confirmGone(ctx context.Context, ref plan.Ref, a plan.Action) error {
	if err := v.noCloneUnderWay(ctx, ref, a.Since); err != nil {
		return err
	}
	for seldom := nextOf(min(max(confirmSeldom, confirmRest*time.Duration(v.scanTook.Load())), confirmMost)); ; {
		if !session.Sleep(ctx, time.Until(nextOf(confirmEvery))) {
			return ctx.Err()
		}
		if !time.Now().Before(seldom) || !v.inFlight.TakingAway() {
			break
		}
	}
	began := time.Now()
	// It reads the rules, too: another replica may have made some for the group since.
	if err := v.reader.ScanWithClusters(ctx); err != nil {
		return err
	}
	v.scanTook.Store(int64(time.Since(began)))
	if names := v.inventory.MemberNames(ref.UID); len(names) > 0 {
		return vcfault.New(plan.ReasonRemoving, false, "vCenter still has %s.", vcfault.FirstFew(names))
	}
	return nil
}

// nextOf returns the next of the times that are that long apart.
func nextOf(every time.Duration) time.Time { return time.Now().Truncate(every).Add(every) }

// removeFolder removes the group's folder if a fresh read shows it empty.
func (v *VCenter) removeFolder(ctx context.Context, ref plan.Ref, a plan.Action) error {
	if err := v.noCloneUnderWay(ctx, ref, a.Since); err != nil {
		return err
	}
	folder := inventory.FolderRef(a.MoRef)
	now, err := v.look(ctx, ref, folder)
	if vcfault.MissingObject(err) == folder {
		return v.reader.Read(ctx, folder)
	}
	if err != nil {
		return err
	}
	if !v.inventory.IsFolderOf(now.Name, now.Parent, ref) {
		return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The folder of %s was renamed or moved, so it was not removed.", ref)
	}
	if err := v.empty(ctx, ref, folder, now.Children); err != nil {
		if vcfault.Classify("", err).Reason == plan.ReasonFolderHoldsStranger {
			v.clones.Forget(ref.UID) // the folder stays, so a clone that another replica begins from now on can land
		}
		return err
	}
	folders := withQuarantine(folder, v.inventory.Below(a.MoRef, plan.QuarantineFolder))
	err = v.unregisterAndDestroy(ctx, folders...)
	if vcfault.MissingObject(err) == folder { // somebody else has removed it
		err = v.reader.Read(ctx, folders...)
	}
	if err != nil {
		return v.keptFolder(ref, err)
	}
	return nil
}

// empty checks, by fresh reads, that what was found in the group's folder is nothing but an empty quarantine.
func (v *VCenter) empty(ctx context.Context, ref plan.Ref, folder types.ManagedObjectReference, found []types.ManagedObjectReference) error {
	quarantine := inventory.FolderRef(v.inventory.Below(folder.Value, plan.QuarantineFolder))
	if at := slices.Index(found, quarantine); at >= 0 {
		kept, err := v.look(ctx, ref, quarantine)
		if err != nil && vcfault.MissingObject(err) != quarantine {
			return err
		}
		found = slices.Concat(found[:at], found[at+1:], kept.Children)
	}
	if len(found) > 0 {
		if err := v.reader.Read(ctx, found...); err != nil {
			return err
		}
	}
	var unmanaged []string
	for _, child := range found {
		m, path, told := v.inventory.Holder(child.Value)
		if m != nil && m.Stamp.UID == ref.UID || m == nil && !told {
			return vcfault.New(plan.ReasonRemoving, false, "A VM of the group is still in its folder; it is removed first.")
		}
		unmanaged = append(unmanaged, path)
	}
	if len(unmanaged) == 0 {
		return nil
	}
	slices.Sort(unmanaged)
	return vcfault.New(plan.ReasonFolderHoldsStranger, false, "The group's folder holds other objects (%s): move them elsewhere, and the folder is removed.", vcfault.FirstFew(unmanaged))
}

// look reads a folder whose content must be seen.
func (v *VCenter) look(ctx context.Context, ref plan.Ref, folder types.ManagedObjectReference) (freshFolder, error) {
	now, err := v.fresh.Folder(ctx, folder)
	if err == nil && !now.Seen {
		err = vcfault.New(vcfault.ReasonMissingPrivilege, true, "The content of the folder of %s cannot be seen: grant the privilege System.View on it.", ref)
	}
	return now, err
}

// noCloneUnderWay checks that none of the clones that were queued or running at its first call for this group
// is any more. A task does not name its destination, so any clone of our user may be the group's. That first
// list, and no clock, tells which ones are older than the end of the group. A group may stop being selected several
// times: another since begins a new list. Where all of that list have ended, no call asks again.
func (v *VCenter) noCloneUnderWay(ctx context.Context, ref plan.Ref, since time.Time) error {
	if v.clones.Ended(ref.UID, since) {
		return nil
	}
	running, err := v.fresh.Clones(ctx)
	if err != nil {
		return err
	}
	if left := v.clones.Left(ref.UID, since, running); left > 0 {
		return vcfault.New(vcfault.ReasonCloneUnderWay, false, "Clones that may be this group's are still under way in vCenter; the server waits for them.")
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
// UnregisterAndDestroy_Task only unregisters that VM and keeps its disks. Destroy_Task would delete them, so it is for what has no such
// method, which every vCenter has: govmomi's simulator.
func (v *VCenter) unregisterAndDestroy(ctx context.Context, folders ...types.ManagedObjectReference) error {
	var vcenter string
	_, err := v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
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
	told := inventory.Reading{VCenter: vcenter}
	for _, folder := range folders {
		told.Gone = append(told.Gone, folder.Value)
	}
	return v.reader.Told(ctx, told)
}
