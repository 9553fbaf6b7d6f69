package vsphere

import (
	"context"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// createFolder makes the group's folder <root>/<namespace>/<group>, and what is missing above it.
func (v *VCenter) createFolder(ctx context.Context, ref plan.Ref) error {
	at, err := v.settings()
	if err != nil {
		return err
	}
	err = v.createBelow(ctx, at, ref)
	if missingObject(err) == at.root { // somebody removed the root folder: the settings are looked up anew, which makes it
		if at, err = v.refit(ctx); err == nil {
			err = v.createBelow(ctx, at, ref)
		}
	}
	return err
}

func (v *VCenter) refit(ctx context.Context) (*site, error) {
	err := v.client.call(ctx, func(ctx context.Context, s *session) error { return v.stream.fit(ctx, s) })
	if err != nil {
		return nil, err
	}
	at, err := v.settings()
	if err == nil {
		err = v.reader.read(ctx, at.root)
	}
	return at, err
}

func (v *VCenter) createBelow(ctx context.Context, at *site, ref plan.Ref) error {
	namespace, err := v.ensureFolder(ctx, at.root, ref.Namespace)
	if err != nil {
		return err
	}
	folder, err := v.ensureFolder(ctx, namespace, ref.Name)
	if err != nil {
		v.reader.touch(namespace)
		return err
	}
	return v.reader.read(ctx, at.root, namespace, folder)
}

// ensureFolder finds or makes a folder. That another one made it first is as good.
func (v *VCenter) ensureFolder(ctx context.Context, parent types.ManagedObjectReference, name string) (types.ManagedObjectReference, error) {
	if known := v.inventory.below(parent.Value, name); known != "" {
		return folderRef(known), nil
	}
	var folder types.ManagedObjectReference
	err := v.call(ctx, func(ctx context.Context, s *session) error {
		res, err := methods.CreateFolder(ctx, s.vim, &types.CreateFolder{This: parent, Name: name})
		if err == nil {
			folder = res.Returnval
		}
		return err
	})
	var taken *types.DuplicateName
	if _, is := fault.As(err, &taken); is {
		if folder, err = taken.Object, nil; folder.Value == "" {
			folder, err = v.child(ctx, parent, name)
		}
		if err == nil && folder.Type != "Folder" {
			return folder, faultf(ReasonNameConflict, true, "The name %s, which a folder of the group needs, is taken by a %s: rename or move it.", name, folder.Type)
		}
	}
	return folder, err
}
