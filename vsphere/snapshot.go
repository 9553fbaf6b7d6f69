package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
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
			b.source, err = v.lookups.sources.get(ctx, s, key, knownFor, ask)
			return err
		}
		snapshot, err := looking(ctx, s, &v.lookups.sources, key, ask, func(x *source) (types.ManagedObjectReference, error) {
			return x.snapshot(clone, b.details.Spec.Template)
		})
		if err != nil {
			return err
		}
		// The clone gets the configuration of that time, too: cores and adapters may differ.
		key := sourceKey{ref: snapshot}
		b.source, err = v.lookups.sources.get(ctx, s, key, knownFor, func() (*source, error) { return readSource(ctx, s, snapshot) })
		b.spec.Snapshot = &snapshot
		b.spec.Location.DiskMoveType = string(types.VirtualMachineRelocateDiskMoveOptionsMoveAllDiskBackingsAndDisallowSharing)
		if clone.Mode == v1alpha1.CloneLinked {
			b.spec.Location.DiskMoveType = string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)
		}
		return err
	})
}

// snapshotRef is one snapshot of a template; path is the names that lead to it, separated by '/'.
type snapshotRef struct {
	name, path string
	ref        types.ManagedObjectReference
}

// snapshotRefs lists a template's snapshots.
func (x *source) snapshotRefs() []snapshotRef {
	if x.snapshots == nil {
		return nil
	}
	var all []snapshotRef
	var walk func(prefix string, trees []types.VirtualMachineSnapshotTree)
	walk = func(prefix string, trees []types.VirtualMachineSnapshotTree) {
		for _, t := range trees {
			name := naming.Unescape(t.Name)
			all = append(all, snapshotRef{name, prefix + name, t.Snapshot})
			walk(prefix+name+"/", t.ChildSnapshotList)
		}
	}
	walk("", x.snapshots.RootSnapshotList)
	return all
}

// snapshot returns the snapshot that clone names by name or path, or the current one. template is for the message.
func (x *source) snapshot(clone v1alpha1.Clone, template string) (types.ManagedObjectReference, error) {
	all := x.snapshotRefs()
	var paths []string
	for _, t := range all {
		paths = append(paths, t.path)
	}
	none := types.ManagedObjectReference{}
	instead := "set clone.mode: Full"
	if clone.Mode != v1alpha1.CloneLinked {
		instead = "remove spec.clone.snapshot"
	}
	if len(all) == 0 {
		return none, vcfault.New(vcfault.ReasonSnapshotNotFound, true, "The template %q has no snapshot: take one (while it is a VM, because vCenter takes none of a template), or %s.", template, instead)
	}
	if clone.Snapshot == "" {
		if x.snapshots.CurrentSnapshot == nil {
			return none, vcfault.New(vcfault.ReasonSnapshotNotFound, true, "The template %q has no current snapshot: set spec.clone.snapshot to one of %s, or set clone.mode: Full.", template, vcfault.Listing(paths))
		}
		return *x.snapshots.CurrentSnapshot, nil
	}
	fits := slices.DeleteFunc(slices.Clone(all), func(t snapshotRef) bool { return t.path != clone.Snapshot })
	if len(fits) == 0 {
		fits = slices.DeleteFunc(slices.Clone(all), func(t snapshotRef) bool { return t.name != clone.Snapshot })
	}
	switch len(fits) {
	case 1:
		return fits[0].ref, nil
	case 0:
		return none, vcfault.New(vcfault.ReasonSnapshotNotFound, true, "The template %q has no snapshot %q: take it, set spec.clone.snapshot to one of %s, or %s.", template, clone.Snapshot, vcfault.Listing(paths), instead)
	}
	paths = nil
	for _, t := range fits {
		paths = append(paths, t.path)
	}
	return none, vcfault.New(vcfault.ReasonSnapshotAmbiguous, true, "The template %q has %d snapshots %q: set spec.clone.snapshot to the path of one of %s (and rename one where two have the same path).",
		template, len(fits), clone.Snapshot, vcfault.Listing(paths))
}
