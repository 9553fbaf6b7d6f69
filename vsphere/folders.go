package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// createFolder creates the group's folder <root>/<namespace>/<group>, and missing folders above it.
func (v *VCenter) createFolder(ctx context.Context, ref plan.Ref, a plan.Action) error {
	if placement := placementIn(a); placement != (plan.Home{}) {
		return v.createAway(ctx, ref, placement)
	}
	at, err := v.settings()
	if err != nil {
		return err
	}
	err = v.createBelow(ctx, at.Root, ref.Namespace, ref.Name)
	if vcfault.MissingObject(err) == at.Root { // somebody removed the root folder: looking up the settings again creates it
		if at, err = v.refit(ctx); err == nil {
			err = v.createBelow(ctx, at.Root, ref.Namespace, ref.Name)
		}
	}
	return err
}

// placementIn returns the placement in an action; that of the settings if it has no details.
func placementIn(a plan.Action) plan.Home {
	if a.Details() == nil || a.Details().Spec == nil {
		return plan.Home{}
	}
	return plan.HomeOf(a.Details().Spec)
}

// createAway does so for another placement than that of the settings. Somebody may have removed some of the known folders:
// the first try shows that.
func (v *VCenter) createAway(ctx context.Context, ref plan.Ref, placement plan.Home) error {
	for range 2 {
		at, err := v.inventory.GroupFolderFor(ref, placement)
		if err != nil {
			return err
		}
		err = v.createBelow(ctx, inventory.FolderRef(at.VMFolder), slices.Concat(at.Path, []string{ref.Namespace, ref.Name})...)
		if gone := vcfault.MissingObject(err); gone.Type == "Folder" {
			err = v.reader.Read(ctx, gone)
		}
		if err != nil {
			return err
		}
		if at, err = v.inventory.GroupFolderFor(ref, placement); err != nil || v.inventory.Below(at.Root, ref.Namespace, ref.Name) != "" {
			return err
		}
	}
	return vcfault.New(vcfault.ReasonFolderNotFound, true, // and not success, for then it would be made again and again
		"vCenter does not find the folder %q of spec.placement.folder by that name after creating it: set spec.placement.folder to names that vCenter keeps unchanged.", placement.Folder)
}

// createBelow finds or creates nested folders, the first one in base. The last one is the group's.
func (v *VCenter) createBelow(ctx context.Context, base types.ManagedObjectReference, names ...string) error {
	chain := []types.ManagedObjectReference{base}
	for i, name := range names {
		folder, err := v.ensureFolder(ctx, chain[i], name)
		if err != nil {
			v.reader.Touch(chain[1:]...)
			return err
		}
		chain = append(chain, folder)
	}
	return v.reader.Read(ctx, chain...)
}

// ensureFolder finds or creates a folder. If another replica creates it first, that is success.
func (v *VCenter) ensureFolder(ctx context.Context, parent types.ManagedObjectReference, name string) (folder types.ManagedObjectReference, err error) {
	if known := v.inventory.Below(parent.Value, name); known != "" {
		return inventory.FolderRef(known), nil
	}
	err = v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		res, err := methods.CreateFolder(ctx, s.Vim, &types.CreateFolder{This: parent, Name: name})
		if err == nil {
			folder = res.Returnval
		}
		return err
	})
	var taken *types.DuplicateName
	if _, is := fault.As(err, &taken); is {
		if folder, err = taken.Object, nil; folder.Value == "" {
			folder, err = v.Child(ctx, parent, name)
		}
		if err == nil && folder.Type != "Folder" {
			return folder, vcfault.New(vcfault.ReasonNameConflict, true, "The name %s, which a folder of the group needs, is taken by a %s: rename or move it.", name, folder.Type)
		}
	}
	return folder, err
}

// createQuarantine creates the folder for removed members, in the group's own.
func (v *VCenter) createQuarantine(ctx context.Context, a plan.Action) error {
	folder, err := v.ensureFolder(ctx, inventory.FolderRef(a.Folder()), plan.QuarantineFolder)
	if err != nil {
		return err
	}
	return v.reader.Read(ctx, inventory.FolderRef(a.Folder()), folder)
}

// rename changes the name of a VM of the group within its folder, where names are unique. Reconfiguring does that as well as Rename_Task
// (https://github.com/vmware/govmomi/issues/2537; Terraform's provider renames so), and only it takes a changeVersion: two replicas, of
// which one puts a VM into quarantine and the other brings it back, don't take the name from each other.
func (v *VCenter) rename(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	name := plan.ArgsOf[plan.RenameArgs](a.Args).Name
	if err != nil || m.Name == name {
		return err
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	if err = v.reconfigure(ctx, inventory.VMRef(a.MoRef), types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion, Name: name}); err != nil {
		err = v.nameRefusal(ctx, ref, a, err, m.Parent, name)
	}
	if err != nil {
		return err
	}
	return v.reader.Read(ctx, inventory.VMRef(a.MoRef))
}

// move moves a VM of the group into another folder. Its name must be free there, so the name stays the lock.
func (v *VCenter) move(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil || m.Folder == a.Folder() {
		return err
	}
	_, err = v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.MoveIntoFolder_Task(ctx, s.Vim, &types.MoveIntoFolder_Task{
			This: inventory.FolderRef(a.Folder()), List: []types.ManagedObjectReference{inventory.VMRef(a.MoRef)}})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	switch {
	case vcfault.MissingObject(err) == inventory.FolderRef(a.Folder()):
		return vcfault.New(vcfault.ReasonFolderGone, false, "The folder that %s was to be moved into is no longer there, so it stays where it is.", a.VM)
	case err != nil:
		err = v.nameRefusal(ctx, ref, a, err, a.Folder(), m.Name)
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
	switch m, path, known := v.inventory.Holder(holder.Value); {
	case holder.Value == "" || !known || m != nil && m.Stamp.UID == ref.UID:
		return vcfault.New(vcfault.ReasonNameHeld, false, "Another VM of the group has the name %s, or is getting it; the server looks again.", name)
	default:
		return vcfault.New(vcfault.ReasonNameConflict, true, "The name %s is taken by %s, which is not the group's: rename, move or remove it.", name, path)
	}
}
