package vsphere

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// ReasonCloneUnderWay says that a clone runs whose VM cannot be seen yet.
const ReasonCloneUnderWay = "CloneUnderWay"

// clone makes a member, powered off (a power-on within the clone would be a second task that nobody awaits), its
// stamp in the clone's own spec: at no moment is there a VM of ours without one. The name is the lock: of two
// clones of one ordinal vCenter refuses one, and that one finds the other's VM.
//
// When the reply to CloneVM_Task is lost, the clone may run all the same. The error is returned, and the next try
// meets its VM, or its name.
func (v *VCenter) clone(ctx context.Context, ref plan.Ref, a plan.Action) error {
	at, err := v.settings()
	if err != nil {
		return err
	}
	cores, err := v.cores(ctx, vmRef(a.Template), a.CPU)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	info, err := v.task(ctx, func(ctx context.Context, s *session) (task types.ManagedObjectReference, err error) {
		stamp := Stamp{
			Cluster: v.cfg.ClusterID, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID,
			Generation: a.Generation, Ordinal: a.Ordinal, Revision: a.Revision, RevisionAlgorithm: plan.RevisionAlgorithm,
			InstanceUUID: id, VCenter: s.uuid, Created: stampTime(time.Now()), Fingerprint: a.Fingerprint,
		}
		res, err := methods.CloneVM_Task(ctx, s.vim, &types.CloneVM_Task{
			This: vmRef(a.Template), Folder: folderRef(a.Folder), Name: a.VM,
			Spec: types.VirtualMachineCloneSpec{
				Location: types.VirtualMachineRelocateSpec{Pool: &at.pool, Datastore: at.datastore},
				Config: &types.VirtualMachineConfigSpec{
					NumCPUs: a.CPU, NumCoresPerSocket: cores, MemoryMB: a.MemoryMB, InstanceUuid: id,
					ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: StampKey, Value: stamp.Encode()}},
				},
			},
		})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	var taken *types.DuplicateName
	if _, is := fault.As(err, &taken); is {
		return v.settleName(ctx, ref, a, taken.Object)
	}
	if err != nil {
		if gone := missingObject(err); gone.Value != "" && (gone == at.pool || at.datastore != nil && gone == *at.datastore) {
			_, refitErr := v.refit(ctx) // the settings name another one now, or none: then their fault is the one to tell
			return errors.Join(refitErr, err)
		}
		return err
	}
	vm, is := info.Result.(types.ManagedObjectReference)
	if !is {
		return v.settleName(ctx, ref, a, types.ManagedObjectReference{})
	}
	return v.reader.read(ctx, vm)
}

// settleName looks at who has a new member's name: the member itself, by an earlier try or another copy of the
// server, or a stranger. It is read afresh, and published.
func (v *VCenter) settleName(ctx context.Context, ref plan.Ref, a plan.Action, holder types.ManagedObjectReference) error {
	if holder.Value == "" {
		var err error
		if holder, err = v.child(ctx, folderRef(a.Folder), a.VM); err != nil {
			return err
		}
	}
	underWay := faultf(ReasonCloneUnderWay, false, "A clone named %s is under way; it is looked at again.", a.VM)
	if holder.Value == "" {
		return underWay
	}
	if err := v.reader.read(ctx, holder); err != nil {
		return err
	}
	m, path, told := v.inventory.holder(holder.Value)
	switch {
	case m != nil && m.stamp.UID == ref.UID && !m.stamp.Quarantined.IsZero():
		return faultf(ReasonNameHeld, false, "A VM of the group that was taken away still has the name %s; it gets another one first.", a.VM)
	case m != nil && m.stamp.UID == ref.UID && m.stamp.Ordinal == a.Ordinal:
		return nil
	case !told:
		return underWay // it went, or is not finished enough to say whose it is
	}
	return faultf(ReasonNameConflict, true, "The name %s is taken by %s, which is not this member of the group: rename, move or remove it.", a.VM, path)
}

// child finds an object by its name in a folder; the zero reference if there is none.
func (v *VCenter) child(ctx context.Context, folder types.ManagedObjectReference, name string) (found types.ManagedObjectReference, err error) {
	err = v.call(ctx, func(ctx context.Context, s *session) error {
		res, err := methods.FindChild(ctx, s.vim, &types.FindChild{This: *s.vim.ServiceContent.SearchIndex, Entity: folder, Name: name})
		if err == nil && res.Returnval != nil {
			found = *res.Returnval
		}
		return err
	})
	return found, err
}

// settings are what the configuration names in vCenter, or why that cannot be used.
func (v *VCenter) settings() (*site, error) {
	at, unfit := v.inventory.where()
	switch {
	case unfit != nil:
		return nil, &Error{Fault: *unfit}
	case at == nil:
		return nil, faultf(plan.ReasonInventoryNotRead, false, "vCenter's inventory is being read.")
	}
	return at, nil
}
