// This file has what a VM says about its owner beside its stamp, for people: its notes and its managedBy.

package vsphere

import (
	"context"
	"fmt"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
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

const (
	// managedType is the type that members then have, if the extension names no other.
	managedType = "vm"
	// extensionKnownFor is how long the server remembers whether the extension is registered.
	extensionKnownFor = 5 * time.Minute
)

// extension returns the extension that members' managedBy names; nil if none is registered. (A simulator takes any managedBy; vCenter refuses
// one with an unregistered extension.)
func (v *parts) extension(ctx context.Context, s *session.Session) (*types.Extension, error) {
	manager := s.Vim.ServiceContent.ExtensionManager
	if manager == nil {
		return nil, nil
	}
	return v.lookups.extensions.Get(ctx, s, role.ExtensionKey, extensionKnownFor, func() (*types.Extension, error) {
		res, err := methods.FindExtension(ctx, s.Vim, &types.FindExtension{This: *manager, ExtensionKey: role.ExtensionKey})
		switch e := vcfault.Classify("", err); {
		case e == nil:
			return res.Returnval, nil
		case e.Reason == vcfault.ReasonNotAuthenticated, e.Reason == vcfault.ReasonVCenterUnreachable, e.Reason == vcfault.ReasonCancelled:
			return nil, err
		}
		return nil, nil // no privilege to read it: no clone fails for that
	})
}

// disown removes from the notes and managedBy of a VM that it is the group's, if they say so.
func (d adoption) disown(ctx context.Context, spec *types.VirtualMachineConfigSpec) error {
	return d.Call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, d.vm(), "config.annotation", "config.managedBy")
		if session.Prop[string](o, "config.annotation") == noteOf(d.ref, d.action.VM, d.cfg.ClusterID) {
			spec.Annotation = formerNoteOf(d.ref, d.action.VM)
		}
		if session.Prop[types.ManagedByInfo](o, "config.managedBy").ExtensionKey == role.ExtensionKey { // [doc] an empty key unsets it
			spec.ManagedBy = &types.ManagedByInfo{}
		}
		return err
	})
}
