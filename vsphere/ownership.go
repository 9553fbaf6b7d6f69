package vsphere

import (
	"context"
	"fmt"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

const (
	// extensionKey is the key under which somebody may register this server with vCenter, which then warns people who
	// edit its VMs by hand.
	extensionKey = "com.vmworld.codeconnect.vmgroup"
	// managedType is the type that members then have, if the extension names no other.
	managedType = "vm"
	// wholeSession is longer than any session.
	wholeSession = 365 * 24 * time.Hour
)

// noteOf says in a VM's notes, in plain words, who owns it.
func noteOf(ref plan.Ref, member, cluster string) string {
	of := ""
	if cluster != "" {
		of = fmt.Sprintf(" (cluster %s)", cluster)
	}
	return fmt.Sprintf("Member %s of the VmGroup %s%s, kept by vmgroup. Change it in Kubernetes: kubectl edit vmgroup %s -n %s. What is changed here may be undone.",
		member, ref, of, ref.Name, ref.Namespace)
}

// formerNoteOf is what stands in the notes of a VM that was released.
func formerNoteOf(ref plan.Ref, member string) string {
	return fmt.Sprintf("Formerly member %s of the VmGroup %s, which was deleted and left its VMs.", member, ref)
}

// disown has the notes and managedBy of a VM say no longer that it is the group's, if they do.
func (v *VCenter) disown(ctx context.Context, ref plan.Ref, a plan.Action, spec *types.VirtualMachineConfigSpec) error {
	return v.call(ctx, func(ctx context.Context, s *session) error {
		objects, err := retrieve(ctx, s, types.PropertyFilterSpec{
			ObjectSet: []types.ObjectSpec{{Obj: vmRef(a.MoRef)}},
			PropSet:   []types.PropertySpec{{Type: vmType, PathSet: []string{"config.annotation", "config.managedBy"}}},
		})
		for _, o := range objects {
			for _, p := range o.PropSet {
				switch val := p.Val.(type) {
				case string:
					if val == noteOf(ref, a.VM, v.cfg.ClusterID) {
						spec.Annotation = formerNoteOf(ref, a.VM)
					}
				case types.ManagedByInfo:
					if val.ExtensionKey == extensionKey { // [doc] an empty key unsets it
						spec.ManagedBy = &types.ManagedByInfo{}
					}
				}
			}
		}
		return err
	})
}

// fillOwner says in the VM whose it is: in its notes, and by managedBy where the extension is registered. (A simulator takes
// any managedBy; vCenter refuses one whose extension it does not know.)
func (v *VCenter) fillOwner(ctx context.Context, o *order) error {
	if o.plain {
		return nil
	}
	o.spec.Config.Annotation = noteOf(o.ref, o.action.VM, v.cfg.ClusterID)
	return v.call(ctx, func(ctx context.Context, s *session) error {
		manager := s.vim.ServiceContent.ExtensionManager
		if manager == nil {
			return nil
		}
		found, err := v.lookups.extensions.get(ctx, s, extensionKey, wholeSession, func() (*types.Extension, error) {
			res, err := methods.FindExtension(ctx, s.vim, &types.FindExtension{This: *manager, ExtensionKey: extensionKey})
			if classify("", err) != nil && classify("", err).Reason == ReasonMissingPrivilege {
				return nil, nil // then it is not ours to use
			}
			if err != nil {
				return nil, err
			}
			return res.Returnval, nil
		})
		if err != nil || found == nil {
			return err
		}
		o.spec.Config.ManagedBy = &types.ManagedByInfo{ExtensionKey: extensionKey, Type: managedType}
		if len(found.ManagedEntityInfo) > 0 {
			o.spec.Config.ManagedBy.Type = found.ManagedEntityInfo[0].Type
		}
		return nil
	})
}
