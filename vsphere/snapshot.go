package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// fillSource sets what of the template is cloned, and how the clone's disks are made:
//
//	Full                 the template as it is, copied
//	Full, snapshot       the template as it was then, copied; [doc] moveAllDiskBackingsAndDisallowSharing: "any delta disk
//	                     backings will be consolidated"
//	Linked               child disks of the template's current snapshot
//	Linked, snapshot     child disks of that one; [doc] createNewChildDiskBacking: "only valid when cloning from a snapshot"
func (v *VCenter) fillSource(ctx context.Context, b *cloneBuilder) error {
	key := sourceKey{inventory.VMRef(b.action.Template), b.action.Fingerprint}
	return v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		ask := func() (*source, error) { return readSource(ctx, s, key.ref) }
		clone := b.details.Spec.Clone
		if clone.Mode != v1alpha1.CloneLinked && clone.Snapshot == "" {
			b.source, err = v.lookups.sources.Get(ctx, s, key, knownFor, ask)
			return err
		}
		snapshot, err := session.LookUpIn(ctx, s, &v.lookups.sources, key, ask, func(x *source) (types.ManagedObjectReference, error) {
			return findSnapshot(x.snapshots, clone, b.details.Spec.Template)
		})
		if err != nil {
			return err
		}
		// The clone gets the configuration of that time, too: cores and adapters may differ.
		key := sourceKey{ref: snapshot}
		b.source, err = v.lookups.sources.Get(ctx, s, key, knownFor, func() (*source, error) { return readSource(ctx, s, snapshot) })
		b.spec.Snapshot = &snapshot
		b.spec.Location.DiskMoveType = string(types.VirtualMachineRelocateDiskMoveOptionsMoveAllDiskBackingsAndDisallowSharing)
		if clone.Mode == v1alpha1.CloneLinked {
			b.spec.Location.DiskMoveType = string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)
		}
		return err
	})
}
