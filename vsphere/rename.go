package vsphere

import (
	"context"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// createQuarantine creates the folder for removed members, in the group's own.
func (v *VCenter) createQuarantine(ctx context.Context, a plan.Action) error {
	folder, err := v.ensureFolder(ctx, inventory.FolderRef(a.Folder), plan.QuarantineFolder)
	if err != nil {
		return err
	}
	return v.reader.Read(ctx, inventory.FolderRef(a.Folder), folder)
}

// rename changes the name of a VM of the group within its folder, where names are unique. Reconfiguring does that as well as Rename_Task
// (https://github.com/vmware/govmomi/issues/2537; Terraform's provider renames so), and only it takes a changeVersion: two replicas, of
// which one puts a VM into quarantine and the other brings it back, don't take the name from each other.
func (v *VCenter) rename(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil || m.Name == a.NewName {
		return err
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	if err = v.reconfigure(ctx, inventory.VMRef(a.MoRef), types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion, Name: a.NewName}); err != nil {
		err = v.nameRefusal(ctx, ref, a, err, m.Parent, a.NewName)
	}
	if err != nil {
		return err
	}
	return v.reader.Read(ctx, inventory.VMRef(a.MoRef))
}

// move moves a VM of the group into another folder. Its name must be free there, so the name stays the lock.
func (v *VCenter) move(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil || m.Folder == a.Folder {
		return err
	}
	_, err = v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.MoveIntoFolder_Task(ctx, s.Vim, &types.MoveIntoFolder_Task{
			This: inventory.FolderRef(a.Folder), List: []types.ManagedObjectReference{inventory.VMRef(a.MoRef)}})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	switch {
	case vcfault.MissingObject(err) == inventory.FolderRef(a.Folder):
		return vcfault.New(vcfault.ReasonFolderGone, false, "The folder that %s was to be moved into is no longer there, so it stays where it is.", a.VM)
	case err != nil:
		err = v.nameRefusal(ctx, ref, a, err, a.Folder, m.Name)
	}
	if err != nil {
		return err
	}
	return v.reader.Read(ctx, inventory.VMRef(a.MoRef))
}

// nameRefusal says which object has the name, if a rename or a move was refused for that; any other error stays as it is. If the VM
// itself has it, that is success: an earlier try, or another replica, has done it.
func (v *VCenter) nameRefusal(ctx context.Context, ref plan.Ref, a plan.Action, err error, folder, name string) error {
	if vcfault.Has[*types.InvalidName](err) {
		return vcfault.New(vcfault.ReasonNameConflict, true, "vCenter refuses the name %s for the VM of %s.", name, a.VM)
	}
	var duplicate *types.DuplicateName
	if _, is := fault.As(err, &duplicate); !is {
		return err
	}
	holder := duplicate.Object
	if holder.Value == "" {
		var lookErr error
		if holder, lookErr = v.Child(ctx, inventory.FolderRef(folder), name); lookErr != nil {
			return lookErr
		}
	}
	if holder.Value == a.MoRef {
		return nil
	}
	if holder.Value != "" {
		if readErr := v.reader.Read(ctx, holder); readErr != nil {
			return readErr
		}
	}
	switch m, path, told := v.inventory.Holder(holder.Value); {
	case holder.Value == "" || !told || m != nil && m.Stamp.UID == ref.UID:
		return vcfault.New(vcfault.ReasonNameHeld, false, "Another VM of the group has the name %s, or is getting it; the server looks again.", name)
	default:
		return vcfault.New(vcfault.ReasonNameConflict, true, "The name %s is taken by %s, which is not the group's: rename, move or remove it.", name, path)
	}
}
