package vsphere

import (
	"context"
	"fmt"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// release takes the stamp and the server's notes off a VM, which is unmanaged from then on. A VM that is gone is success.
func (v *VCenter) release(ctx context.Context, ref plan.Ref, a plan.Action) error {
	if v.inventory.IsGone(a.MoRef) {
		return nil
	}
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	spec := types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion,
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: ""}}}
	if err = v.disown(ctx, ref, a, &spec); err == nil {
		err = v.reconfigure(ctx, inventory.VMRef(a.MoRef), spec)
	}
	if fault.Is(err, &types.NoPermission{}) && (spec.Annotation != "" || spec.ManagedBy != nil) {
		spec.Annotation, spec.ManagedBy = "", nil // a deletion does not fail because of the notes
		err = v.reconfigure(ctx, inventory.VMRef(a.MoRef), spec)
	}
	if err == nil {
		return v.reader.Read(ctx, inventory.VMRef(a.MoRef))
	}
	if vcfault.MissingObject(err) == inventory.VMRef(a.MoRef) {
		return v.reader.Read(ctx, inventory.VMRef(a.MoRef))
	}
	return err
}

// adopt writes a stamp into a VM that has none, or that of a former incarnation of the group. It checks all that State checked
// again, in a read that begins now.
func (v *VCenter) adopt(ctx context.Context, ref plan.Ref, a plan.Action) error {
	v.inventory.WatchCandidate(ref, a.MoRef)
	if err := v.reader.Read(ctx, inventory.VMRef(a.MoRef)); err != nil {
		return err
	}
	if m := v.inventory.Member(a.MoRef); m != nil && m.Stamp.UID == ref.UID {
		return nil // by an earlier try, or by another replica
	}
	m, err := v.inventory.AdoptableNow(ref, a.MoRef)
	if err != nil {
		return err
	}
	if m.ChangeVersion == "" || m.ChangeVersion != a.ChangeVersion {
		return changedMeanwhile()
	}
	as := plan.ArgsOf[plan.AdoptArgs](a.Args)
	stamp := stamp.Stamp{
		Cluster: v.cfg.ClusterID, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID,
		Generation: a.Generation, Ordinal: a.Ordinal, Revision: as.Revision, RevisionAlgorithm: plan.RevisionAlgorithm,
		InstanceUUID: m.InstanceUUID, VCenter: v.inventory.VCenter(), Created: stamp.Time(time.Now()), Fingerprint: as.Fingerprint,
		Former: plan.Former{Entry: as.Entry, Name: m.Name, Folder: m.Folder},
	}
	if a.Details() != nil { // as in a clone's stamp, so that adoption alone replaces nothing
		stamp.Home, stamp.Addresses = a.Details().Home, a.Details().AddressText
	}
	return v.writeStamp(ctx, a.MoRef, m.ChangeVersion, stamp.Encode())
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
