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
	if a.Details == nil || a.Details.Spec == nil {
		return plan.Home{}
	}
	return plan.HomeOf(a.Details.Spec)
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
