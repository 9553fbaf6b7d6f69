// This file finds the snapshot of a template that spec.clone names. It makes no calls.

package vsphere

import (
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// snapshot is one snapshot of a template; path is the names that lead to it, separated by '/'.
type snapshot struct {
	name, path string
	ref        types.ManagedObjectReference
}

// list lists a template's snapshots.
func list(snapshots *types.VirtualMachineSnapshotInfo) []snapshot {
	if snapshots == nil {
		return nil
	}
	var all []snapshot
	var walk func(prefix string, trees []types.VirtualMachineSnapshotTree)
	walk = func(prefix string, trees []types.VirtualMachineSnapshotTree) {
		for _, t := range trees {
			name := naming.Unescape(t.Name)
			all = append(all, snapshot{name, prefix + name, t.Snapshot})
			walk(prefix+name+"/", t.ChildSnapshotList)
		}
	}
	walk("", snapshots.RootSnapshotList)
	return all
}

// findSnapshot returns the snapshot that clone names by name or path, or the current one. template is for the message.
func findSnapshot(snapshots *types.VirtualMachineSnapshotInfo, clone v1alpha1.Clone, template string) (types.ManagedObjectReference, error) {
	all := list(snapshots)
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
		if snapshots.CurrentSnapshot == nil {
			return none, vcfault.New(vcfault.ReasonSnapshotNotFound, true, "The template %q has no current snapshot: set spec.clone.snapshot to one of %s, or set clone.mode: Full.", template, vcfault.Listing(paths))
		}
		return *snapshots.CurrentSnapshot, nil
	}
	fits := slices.DeleteFunc(slices.Clone(all), func(t snapshot) bool { return t.path != clone.Snapshot })
	if len(fits) == 0 {
		fits = slices.DeleteFunc(slices.Clone(all), func(t snapshot) bool { return t.name != clone.Snapshot })
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
