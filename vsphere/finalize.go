package vsphere

import (
	"context"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// confirmGone reads everything again. A clone outlives the process that started it and is invisible until it is
// registered, so it looks at the tasks first: a clone that is no longer among them has ended, and the read that begins
// afterwards has its VM.
func (v *VCenter) confirmGone(ctx context.Context, ref plan.Ref, a plan.Action) error {
	if err := v.noCloneUnderWay(ctx, ref, a.Since); err != nil {
		return err
	}
	// It reads the rules, too: another replica may have made some for the group since.
	if err := v.reader.ScanWithClusters(ctx); err != nil {
		return err
	}
	if names := v.inventory.MemberNames(ref.UID); len(names) > 0 {
		return vcfault.New(plan.ReasonRemoving, false, "vCenter still has %s.", vcfault.FirstFew(names))
	}
	for _, folder := range a.Folders {
		v.leaveRenamed(ctx, ref, folder)
	}
	return nil
}

// removeFolder removes the group's folder if a fresh read shows it empty.
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
			v.clones.Forget(ref.UID) // the folder stays, so a clone that another replica begins from now on can land
		}
		return err
	}
	namespace := v.inventory.NamespaceFolder(a.MoRef)
	folders := withQuarantine(folder, v.inventory.Below(a.MoRef, plan.QuarantineFolder))
	err := v.unregisterAndDestroy(ctx, folders...)
	if vcfault.MissingObject(err) == folder { // somebody else has removed it
		err = v.reader.Read(ctx, folders...)
	}
	if err != nil {
		return v.keptFolder(ref, err)
	}
	v.leaveNamespace(ctx, ref, namespace)
	return nil
}

// empty checks, by a fresh read, that the group's folder holds nothing but an empty quarantine.
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
		found = append(slices.DeleteFunc(found, func(x types.ManagedObjectReference) bool { return x == quarantine }), kept...)
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

// inside reads a folder's children, and the objects in each of those; nothing if the folder is gone.
func (v *VCenter) inside(ctx context.Context, ref plan.Ref, folder types.ManagedObjectReference) ([]types.ManagedObjectReference, error) {
	children, seen, err := v.fresh.Children(ctx, folder)
	if err == nil && !seen {
		return nil, vcfault.New(vcfault.ReasonMissingPrivilege, true, "The content of the folder of %s cannot be seen: grant the privilege System.View on it.", ref)
	}
	if vcfault.MissingObject(err) == folder || err == nil && len(children) == 0 {
		return nil, nil
	}
	if err == nil {
		err = v.reader.Read(ctx, children...)
	}
	return children, err
}

// noCloneUnderWay checks that none of the clones that were queued or running at its first call for this group
// is any more. A task does not name its destination, so any clone of our user may be the group's. That first
// list, and no clock, tells which ones are older than the end of the group. A group may stop being selected several
// times: another since begins a new list.
func (v *VCenter) noCloneUnderWay(ctx context.Context, ref plan.Ref, since time.Time) error {
	running, err := v.fresh.Clones(ctx)
	if err != nil {
		return err
	}
	if left := v.clones.Left(ref.UID, since, running); left > 0 {
		return vcfault.New(vcfault.ReasonCloneUnderWay, false, "Clones that may be this group's are still under way in vCenter; the server waits for them.")
	}
	return nil
}
