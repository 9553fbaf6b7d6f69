package vsphere

import (
	"context"

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
	folder := inventory.FolderRef(namespace)
	idle := false
	err := v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, folder, "childEntity", "permission", "customValue", "tag")
		idle = err == nil && o.Told && !o.Withheld &&
			len(session.Prop[types.ArrayOfManagedObjectReference](o, "childEntity").ManagedObjectReference) == 0 &&
			len(session.Prop[types.ArrayOfPermission](o, "permission").Permission) == 0 &&
			len(session.Prop[types.ArrayOfCustomFieldValue](o, "customValue").CustomFieldValue) == 0 &&
			len(session.Prop[types.ArrayOfTag](o, "tag").Tag) == 0
		return err
	})
	if err == nil && idle {
		_, err = v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
			res, err := methods.UnregisterAndDestroy_Task(ctx, s.Vim, &types.UnregisterAndDestroy_Task{This: folder})
			if err == nil {
				task = res.Returnval
			}
			return task, err
		})
	}
	if err != nil {
		v.log.Debug().Err(err).Stringer("group", ref).Msg("the namespace's folder stays")
	}
	v.reader.Touch(folder)
}
