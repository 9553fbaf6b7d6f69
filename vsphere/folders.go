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

// folders is a step that creates folders, or renames or moves a VM.
type folders struct{ *step }

// createFolder creates the group's folder <root>/<namespace>/<group>, and missing folders above it.
func (f folders) createFolder(ctx context.Context) error {
	if placement := placementIn(f.action); placement != (plan.Home{}) {
		return f.createElsewhere(ctx, placement)
	}
	at, err := f.settings()
	if err != nil {
		return err
	}
	err = f.createBelow(ctx, at.Root, f.ref.Namespace, f.ref.Name)
	if vcfault.MissingObject(err) == at.Root { // the root folder was removed: looking up the settings creates it again
		if at, err = f.reloadSettings(ctx); err == nil {
			err = f.createBelow(ctx, at.Root, f.ref.Namespace, f.ref.Name)
		}
	}
	return err
}

// placementIn returns the placement in an action; the zero value, for that of the settings, if the action has no details.
func placementIn(a plan.Action) plan.Home {
	if a.Details() == nil || a.Details().Spec == nil {
		return plan.Home{}
	}
	return plan.HomeOf(a.Details().Spec)
}

// createElsewhere is createFolder for another placement than that of the settings. If a known folder has been removed, the first try shows it.
func (f folders) createElsewhere(ctx context.Context, placement plan.Home) error {
	for range 2 {
		at, err := f.inventory.GroupFolderFor(f.ref, placement)
		if err != nil {
			return err
		}
		err = f.createBelow(ctx, inventory.FolderRef(at.VMFolder), slices.Concat(at.Path, []string{f.ref.Namespace, f.ref.Name})...)
		if gone := vcfault.MissingObject(err); gone.Type == "Folder" {
			err = f.reader.Read(ctx, gone)
		}
		if err != nil {
			return err
		}
		if at, err = f.inventory.GroupFolderFor(f.ref, placement); err != nil || f.inventory.Below(at.Root, f.ref.Namespace, f.ref.Name) != "" {
			return err
		}
	}
	return vcfault.ForOperator(vcfault.ReasonFolderNotFound, // not success, after which the plan would create the folder again and again
		"vCenter does not find the folder %q of spec.placement.folder by that name after creating it: set spec.placement.folder to names that vCenter keeps unchanged.", placement.Folder)
}

// createBelow finds or creates nested folders, the first of them in base, and reads them. The last one is the group's.
func (f folders) createBelow(ctx context.Context, base types.ManagedObjectReference, names ...string) error {
	chain := []types.ManagedObjectReference{base}
	for i, name := range names {
		folder, err := f.ensureFolder(ctx, chain[i], name)
		if err != nil {
			f.reader.Enqueue(chain[1:]...)
			return err
		}
		chain = append(chain, folder)
	}
	return f.reader.Read(ctx, chain...)
}

// ensureFolder finds or creates a folder. It succeeds if another replica creates the folder first.
func (f folders) ensureFolder(ctx context.Context, parent types.ManagedObjectReference, name string) (folder types.ManagedObjectReference, err error) {
	if known := f.inventory.Below(parent.Value, name); known != "" {
		return inventory.FolderRef(known), nil
	}
	err = f.Call(ctx, func(ctx context.Context, s *session.Session) error {
		res, err := methods.CreateFolder(ctx, s.Vim, &types.CreateFolder{This: parent, Name: name})
		if err == nil {
			folder = res.Returnval
			if placementIn(f.action).Folder != "" { // a tenant can name any number of others; the root has one for each namespace
				f.made.add(folder.Value, parent.Value, name)
			}
		}
		return err
	})
	var taken *types.DuplicateName
	if _, is := fault.As(err, &taken); is {
		if folder, err = taken.Object, nil; folder.Value == "" {
			folder, err = f.Child(ctx, parent, name)
		}
		switch {
		case err != nil:
		case folder.Value == "":
			err = vcfault.ForRetry(vcfault.ReasonNameHeld, "vCenter says that the name %s is taken, and shows no object of that name; the server tries again.", name)
		case folder.Type != "Folder":
			err = vcfault.ForOperator(vcfault.ReasonNameConflict, "The name %s, which a folder of the group needs, is taken by a %s: rename or move it.", name, folder.Type)
		default:
			_, err = f.checkHolder(ctx, folder, name)
		}
	}
	return folder, err
}

// createQuarantine creates the folder for removed members in the group's folder.
func (f folders) createQuarantine(ctx context.Context) error {
	folder, err := f.ensureFolder(ctx, inventory.FolderRef(f.action.Folder()), plan.QuarantineFolder)
	if err != nil {
		return err
	}
	return f.reader.Read(ctx, inventory.FolderRef(f.action.Folder()), folder)
}

// rename renames a VM of the group within its folder, where names are unique. It reconfigures the VM, which works as well as Rename_Task
// (https://github.com/vmware/govmomi/issues/2537; Terraform's provider does so, too) and has a changeVersion: if one replica puts a VM into
// quarantine and another brings it back, only one of them renames it.
func (f folders) rename(ctx context.Context) error {
	m, err := f.own()
	name := plan.ArgsOf[plan.RenameArgs](f.action.Args).Name
	if err != nil || m.Name == name {
		return err
	}
	if err := f.unchanged(m); err != nil {
		return err
	}
	if err = f.reconfigure(ctx, f.vm(), types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion, Name: name}); err != nil {
		err = f.nameRefusal(ctx, err, m.Parent, name)
	}
	if err != nil {
		return err
	}
	return f.reader.Read(ctx, f.vm())
}

// move moves a VM of the group into another folder. vCenter refuses the move if the name is taken there, so names remain the lock.
func (f folders) move(ctx context.Context) error {
	m, err := f.own()
	if err != nil || m.Folder == f.action.Folder() {
		return err
	}
	_, err = f.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.MoveIntoFolder_Task(ctx, s.Vim, &types.MoveIntoFolder_Task{
			This: inventory.FolderRef(f.action.Folder()), List: []types.ManagedObjectReference{f.vm()}})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	switch {
	case vcfault.MissingObject(err) == inventory.FolderRef(f.action.Folder()):
		return vcfault.ForRetry(vcfault.ReasonFolderGone, "The folder that the VM of %s was to be moved into no longer exists, so the VM was not moved.", f.action.Key)
	case err != nil:
		err = f.nameRefusal(ctx, err, f.action.Folder(), m.Name)
	}
	if err != nil {
		return err
	}
	return f.reader.Read(ctx, f.vm())
}

// nameRefusal names the object that has the name, if vCenter refused a rename or a move for that; it returns other errors unchanged. It returns nil
// if the VM itself has the name, because an earlier try or another replica was successful.
func (f folders) nameRefusal(ctx context.Context, err error, folder, name string) error {
	if vcfault.Has[*types.InvalidName](err) {
		return vcfault.ForOperator(vcfault.ReasonNameConflict, "vCenter refuses the name %s for the VM of %s.", name, f.action.Key)
	}
	var duplicate *types.DuplicateName
	if _, is := fault.As(err, &duplicate); !is {
		return err
	}
	holder := duplicate.Object
	if holder.Value == "" {
		var lookErr error
		if holder, lookErr = f.Child(ctx, inventory.FolderRef(folder), name); lookErr != nil {
			return lookErr
		}
	}
	if holder.Value == f.action.MoRef {
		return nil
	}
	held := vcfault.ForRetry(vcfault.ReasonNameHeld, "A VM that is the group's, or may be, has the name %s, or is getting it; the server looks again.", name)
	if holder.Value == "" {
		return held
	}
	return f.nameTaken(ctx, holder, name, held, func() (known bool, err error) {
		if err := f.reader.Read(ctx, holder); err != nil {
			return false, err
		}
		switch m, path, known := f.inventory.Holder(holder.Value); {
		case !known:
			return false, nil
		case m != nil && m.Stamp.UID == f.ref.UID:
			return true, held
		default:
			return true, vcfault.ForOperator(vcfault.ReasonNameConflict, "The name %s is taken by %s, which is not the group's: rename, move or remove it.", name, path)
		}
	})
}

// nameTaken returns why a step can't use a name that an object has. identify reads the object, and returns the fault if the inventory knows whose it
// is. It may not know a VM whose clone is running, for which the step waits; if none is, an operator has to look.
func (c calls) nameTaken(ctx context.Context, holder types.ManagedObjectReference, name string, waits *vcfault.Error, identify func() (known bool, err error)) error {
	if known, err := identify(); known || err != nil {
		return err
	}
	gone, err := c.checkHolder(ctx, holder, name)
	if err != nil {
		return err
	}
	running, err := c.recentClones(ctx)
	if err != nil {
		return err
	}
	if gone || len(running) > 0 { // a clone reserves its name before vCenter shows its task or its VM
		return waits
	}
	if known, err := identify(); known || err != nil { // its clone may have ended in the meantime
		return err
	}
	return vcfault.ForOperator(vcfault.ReasonNameConflict, "The name %s is taken by the VM %s, whose configuration vCenter does not show though no clone is running: look at the VM in vCenter, and rename, move or remove it.", name, holder.Value)
}

// checkHolder fails if the server's account cannot see the object that has a name, so that nobody waits for an object that stays: names are unique
// in a folder, also among hidden objects. gone reports whether the object does not exist, or not yet.
func (c calls) checkHolder(ctx context.Context, holder types.ManagedObjectReference, name string) (gone bool, err error) {
	o, err := c.freshObject(ctx, holder)
	switch {
	case vcfault.MissingObject(err) == holder:
		return true, nil
	case err != nil && !vcfault.Has[*types.NoPermission](err):
		return false, err
	case err != nil || !o.Found || o.Denied:
		return false, vcfault.ForOperator(vcfault.ReasonMissingPrivilege, "The name %s is taken by the %s %s, which vCenter's user cannot see: grant it the privilege System.Read there, or rename, move or remove the object.",
			name, holder.Type, holder.Value)
	}
	return false, nil
}
