// This file releases a VM from its group without destroying it.

package vsphere

import (
	"context"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// release removes the stamp and the server's notes from a VM, which is then unmanaged. It succeeds if the VM is gone.
func (d adoption) release(ctx context.Context) error {
	if d.inventory.IsGone(d.action.MoRef) {
		return nil
	}
	m, err := d.own()
	if err != nil {
		return err
	}
	if err := d.unchanged(m); err != nil {
		return err
	}
	spec := types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion,
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: ""}}}
	if err = d.clearOwner(ctx, &spec); err == nil {
		err = d.reconfigure(ctx, d.vm(), spec)
	}
	if fault.Is(err, &types.NoPermission{}) && (spec.Annotation != "" || spec.ManagedBy != nil) {
		spec.Annotation, spec.ManagedBy = "", nil // missing privileges for the notes must not block a deletion
		err = d.reconfigure(ctx, d.vm(), spec)
	}
	if err == nil {
		return d.reader.Read(ctx, d.vm())
	}
	if vcfault.MissingObject(err) == d.vm() {
		return d.reader.Read(ctx, d.vm())
	}
	return err
}

// clearOwner adds to spec the removal of the owner from the VM's notes and managedBy, if they name the group.
func (d adoption) clearOwner(ctx context.Context, spec *types.VirtualMachineConfigSpec) error {
	return d.Call(ctx, func(ctx context.Context, s *session.Session) error {
		var notes string
		var by types.ManagedByInfo
		_, err := session.ReadProps(ctx, s, d.vm(), session.To("config.annotation", &notes), session.To("config.managedBy", &by))
		if notes == noteOf(d.ref, d.action.Key, d.cfg.ClusterID) {
			spec.Annotation = formerNoteOf(d.ref, d.action.Key)
		}
		if by.ExtensionKey == role.ExtensionKey { // [doc] an empty key unsets managedBy
			spec.ManagedBy = &types.ManagedByInfo{}
		}
		return err
	})
}
