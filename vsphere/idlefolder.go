package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// leaveNamespace removes the folder of a namespace whose last group is gone, if a fresh read shows that it is empty and that nobody
// gave it permissions, attributes or tags: such a folder is an operator's. A deletion does not depend on it, so no failure is reported.
//
// Another replica may create the folder of another group in it at this moment. It then finds it gone, and creates both again: a clone
// takes longer than the call that follows the read, and UnregisterAndDestroy_Task deletes no disk in any case.
func (v *VCenter) leaveNamespace(ctx context.Context, ref plan.Ref, namespace string) {
	if namespace == "" || v.inventory.HasNeighbours(ref) {
		return
	}
	v.removeIdle(ctx, ref, namespace, "")
}

// leaveRenamed removes a folder that was made for a group that is gone and that somebody renamed, if nothing but an empty quarantine is
// in it and nobody gave it permissions, attributes or tags.
//
// Only the folder's moRef shows whose it is, and a vCenter that was restored from a backup may give out a moRef again. So
// a folder that is not in the folder of the group's namespace stays, and so does one that a group asked for by its present name.
func (v *VCenter) leaveRenamed(ctx context.Context, ref plan.Ref, moRef string) {
	if !v.inventory.IsRenamedFolder(moRef, ref) || v.reader.Read(ctx, inventory.FolderRef(moRef)) != nil || !v.inventory.IsRenamedFolder(moRef, ref) {
		return
	}
	namespace := v.inventory.NamespaceFolder(moRef)
	v.removeIdle(ctx, ref, moRef, v.inventory.Below(moRef, plan.QuarantineFolder))
	v.leaveNamespace(ctx, ref, namespace)
}

// removeIdle removes a folder if fresh reads show that it and its quarantine, if it has one, are idle.
func (v *VCenter) removeIdle(ctx context.Context, ref plan.Ref, moRef, quarantine string) {
	folder := inventory.FolderRef(moRef)
	idle, err := v.isIdle(ctx, folder, quarantine)
	if err == nil && idle && quarantine != "" {
		idle, err = v.isIdle(ctx, inventory.FolderRef(quarantine), "")
	}
	if err == nil && idle {
		err = v.unregisterAndDestroy(ctx, withQuarantine(folder, quarantine)...)
	}
	if err != nil {
		v.log.Debug().Err(err).Stringer("group", ref).Str("folder", moRef).Msg("a folder stays")
	}
	if err != nil || !idle {
		v.reader.Touch(folder)
	}
}

// isIdle reports whether nothing but the named child is in a folder, and nobody gave it permissions, attributes or tags.
func (v *VCenter) isIdle(ctx context.Context, folder types.ManagedObjectReference, child string) (idle bool, err error) {
	err = v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, folder, "childEntity", "permission", "customValue", "tag")
		idle = err == nil && o.Told && !o.Withheld &&
			!slices.ContainsFunc(session.Prop[types.ArrayOfManagedObjectReference](o, "childEntity").ManagedObjectReference,
				func(r types.ManagedObjectReference) bool { return r != inventory.FolderRef(child) }) &&
			len(session.Prop[types.ArrayOfPermission](o, "permission").Permission) == 0 &&
			len(session.Prop[types.ArrayOfCustomFieldValue](o, "customValue").CustomFieldValue) == 0 &&
			len(session.Prop[types.ArrayOfTag](o, "tag").Tag) == 0
		return err
	})
	return idle, err
}

// withQuarantine returns a folder and the quarantine in it, if it has one.
func withQuarantine(folder types.ManagedObjectReference, quarantine string) []types.ManagedObjectReference {
	if quarantine == "" {
		return []types.ManagedObjectReference{folder}
	}
	return []types.ManagedObjectReference{folder, inventory.FolderRef(quarantine)}
}

// unregisterAndDestroy removes the first of these folders, and the others that are in it. If a VM gets into it at the last moment,
// UnregisterAndDestroy_Task only unregisters that VM and keeps its disks; Destroy_Task would delete them.
func (v *VCenter) unregisterAndDestroy(ctx context.Context, folders ...types.ManagedObjectReference) error {
	var vcenter string
	_, err := v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		vcenter = s.UUID
		res, err := methods.UnregisterAndDestroy_Task(ctx, s.Vim, &types.UnregisterAndDestroy_Task{This: folders[0]})
		if err == nil {
			task = res.Returnval
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
