package vsphere

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// managedType is the type that members then have, if the extension names no other.
	managedType = "vm"
	// extensionKnownFor is how long the server remembers whether the extension is registered.
	extensionKnownFor = 5 * time.Minute
)

// noteOf returns the notes of a VM, which say in plain words what it belongs to. The text must stay: disown recognizes notes by it,
// also those that an older server wrote.
func noteOf(ref plan.Ref, member, cluster string) string {
	of := ""
	if cluster != "" {
		of = fmt.Sprintf(" (cluster %s)", cluster)
	}
	return fmt.Sprintf("Member %s of the VmGroup %s%s, kept by vmgroup. Change it in Kubernetes: kubectl edit vmgroup %s -n %s. What is changed here may be undone.",
		member, ref, of, ref.Name, ref.Namespace)
}

// formerNoteOf returns the notes of a VM that was released.
func formerNoteOf(ref plan.Ref, member string) string {
	return fmt.Sprintf("Formerly member %s of the VmGroup %s, which was deleted and left its VMs.", member, ref)
}

// disown removes from the notes and managedBy of a VM that it is the group's, if they say so.
func (v *VCenter) disown(ctx context.Context, ref plan.Ref, a plan.Action, spec *types.VirtualMachineConfigSpec) error {
	return v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, inventory.VMRef(a.MoRef), "config.annotation", "config.managedBy")
		if session.Prop[string](o, "config.annotation") == noteOf(ref, a.VM, v.cfg.ClusterID) {
			spec.Annotation = formerNoteOf(ref, a.VM)
		}
		if session.Prop[types.ManagedByInfo](o, "config.managedBy").ExtensionKey == role.ExtensionKey { // [doc] an empty key unsets it
			spec.ManagedBy = &types.ManagedByInfo{}
		}
		return err
	})
}

// unadorn removes optional parts from the clone that our user lacks the privilege for: roles
// made for older versions of this server have neither privilege.
func (b *cloneBuilder) unadorn(err error) bool {
	var denied types.BaseNoPermission
	if _, is := fault.As(err, &denied); !is {
		return false
	}
	lacks := []string{denied.GetNoPermission().PrivilegeId}
	for _, m := range denied.GetNoPermission().MissingPrivileges {
		lacks = append(lacks, m.PrivilegeIds...)
	}
	switch config := b.spec.Config; {
	case config.Annotation != "" && slices.Contains(lacks, "VirtualMachine.Config.Annotation"):
		config.Annotation = ""
	case config.ManagedBy != nil && slices.Contains(lacks, "VirtualMachine.Config.ManagedBy"):
		config.ManagedBy = nil
	default:
		return false
	}
	return true
}

// fillOwner records in the VM what it belongs to: in its notes, and by managedBy if the extension is registered. (A simulator takes
// any managedBy; vCenter refuses one with an unregistered extension.)
func (v *VCenter) fillOwner(ctx context.Context, b *cloneBuilder) error {
	if b.plain {
		return nil
	}
	b.spec.Config.Annotation = noteOf(b.ref, b.action.VM, v.cfg.ClusterID)
	return v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		manager := s.Vim.ServiceContent.ExtensionManager
		if manager == nil {
			return nil
		}
		found, err := v.lookups.extensions.Get(ctx, s, role.ExtensionKey, extensionKnownFor, func() (*types.Extension, error) {
			res, err := methods.FindExtension(ctx, s.Vim, &types.FindExtension{This: *manager, ExtensionKey: role.ExtensionKey})
			switch e := vcfault.Classify("", err); {
			case e == nil:
				return res.Returnval, nil
			case e.Reason == vcfault.ReasonNotAuthenticated, e.Reason == vcfault.ReasonVCenterUnreachable, e.Reason == vcfault.ReasonCancelled:
				return nil, err
			}
			return nil, nil // no privilege to read it: no clone fails for that
		})
		if err != nil || found == nil {
			return err
		}
		b.spec.Config.ManagedBy = &types.ManagedByInfo{ExtensionKey: role.ExtensionKey, Type: managedType}
		if len(found.ManagedEntityInfo) > 0 {
			b.spec.Config.ManagedBy.Type = found.ManagedEntityInfo[0].Type
		}
		return nil
	})
}
