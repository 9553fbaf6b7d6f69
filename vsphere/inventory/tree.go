// This file reads vCenter's inventory from the root folder down, page by page: each place (a folder, datacenter or vApp), and of each VM the
// properties that show its owner. It has no lock.

package inventory

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// placeSpecs are the properties that show where a place is.
func placeSpecs() []types.PropertySpec {
	return []types.PropertySpec{
		{Type: "Folder", PathSet: []string{"name", "parent"}},
		{Type: "Datacenter", PathSet: []string{"name", "parent"}},
		{Type: "VirtualApp", PathSet: []string{"name", "parentFolder"}},
	}
}

// everyVM traverses from the root folder to every folder and VM. There is no ContainerView in it, and no step
// from a vApp to one nested in it: with that step vcsim, which ignores the types in a traversal, would go
// from VM to pool to VM forever. A VM in a nested vApp is read by its moRef, but not watched.
func everyVM(root types.ManagedObjectReference) []types.ObjectSpec {
	again := []types.BaseSelectionSpec{
		&types.SelectionSpec{Name: "children"},
		&types.SelectionSpec{Name: "datacenter"},
		&types.SelectionSpec{Name: "vapp"},
	}
	return []types.ObjectSpec{{Obj: root, SelectSet: []types.BaseSelectionSpec{
		&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "children"}, Type: "Folder", Path: "childEntity", SelectSet: again},
		&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "datacenter"}, Type: "Datacenter", Path: "vmFolder", SelectSet: again},
		&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "vapp"}, Type: "VirtualApp", Path: "vm"},
	}}}
}

// clusterSpec traverses from the root folder to every cluster and standalone host, and to no VM.
func clusterSpec(root types.ManagedObjectReference) types.PropertyFilterSpec {
	again := []types.BaseSelectionSpec{&types.SelectionSpec{Name: "children"}, &types.SelectionSpec{Name: "datacenter"}}
	return types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: root, SelectSet: []types.BaseSelectionSpec{
			&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "children"}, Type: "Folder", Path: "childEntity", SelectSet: again},
			&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "datacenter"}, Type: "Datacenter", Path: "hostFolder", SelectSet: again},
		}}},
		PropSet: []types.PropertySpec{
			{Type: "ComputeResource", PathSet: []string{"name", "host"}},
			{Type: "ClusterComputeResource", PathSet: []string{"name", "host", "configurationEx"}},
		},
	}
}

// readTree reads every place, and the properties ofVM of every VM, in one call, and calls each with each page of the answer. If the call fails
// because of one object, readTree begins again and reads level by level, by moRefs. It returns the objects that cannot be read: VMs, and places
// on which the account has no permission. It fails if it can't read the content of another place.
func readTree(ctx context.Context, s *session.Session, ofVM []string, each func([]types.ObjectContent) error) (unread []types.ManagedObjectReference, err error) {
	root := s.Vim.ServiceContent.RootFolder
	vm := types.PropertySpec{Type: "VirtualMachine", PathSet: ofVM}
	var refused error // of each
	err = session.Pages(ctx, s, types.PropertyFilterSpec{ObjectSet: everyVM(root), PropSet: append(placeSpecs(), vm)}, func(page []types.ObjectContent) error {
		refused = each(page)
		return refused
	})
	if err == nil || refused != nil || session.IsFatal(err) {
		return nil, err
	}
	spec := func(refs []types.ManagedObjectReference) types.PropertyFilterSpec { return levelSpec(vm, refs) }
	for level, seen := []types.ManagedObjectReference{root}, map[types.ManagedObjectReference]bool{root: true}; len(level) > 0; {
		var below []types.ManagedObjectReference
		for chunk := range slices.Chunk(level, atOnce) {
			n := session.NewBisection(s, spec, spec, func(objects []types.ObjectContent) error {
				for i := range objects {
					below = append(below, takeChildren(&objects[i])...)
				}
				return each(objects)
			})
			if err := n.Read(ctx, chunk); err != nil {
				return nil, err
			}
			for ref, why := range n.Unread {
				if ref.Type != "VirtualMachine" && !vcfault.Has[types.BaseNoPermission](why) {
					return nil, why
				}
				unread = append(unread, ref)
			}
		}
		level = slices.DeleteFunc(below, func(ref types.ManagedObjectReference) bool {
			read := seen[ref]
			seen[ref] = true
			return read || !slices.Contains(treeTypes, ref.Type)
		})
	}
	return unread, nil
}

// atOnce is how many objects one call reads by their moRefs.
const atOnce = 500

// treeTypes are the types of the objects that readTree reads.
var treeTypes = []string{"Folder", "Datacenter", "VirtualApp", "VirtualMachine"}

// childPaths lead to the children of a place.
var childPaths = map[string]string{"Folder": "childEntity", "Datacenter": "vmFolder", "VirtualApp": "vm"}

// levelSpec reads of objects what readTree reads, and their children.
func levelSpec(vm types.PropertySpec, refs []types.ManagedObjectReference) types.PropertyFilterSpec {
	spec := types.PropertyFilterSpec{PropSet: []types.PropertySpec{vm}}
	for _, p := range placeSpecs() {
		p.PathSet = append(slices.Clone(p.PathSet), childPaths[p.Type])
		spec.PropSet = append(spec.PropSet, p)
	}
	for _, ref := range refs {
		spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
	}
	return spec
}

// takeChildren removes the children from what was read of a place, and returns them.
func takeChildren(o *types.ObjectContent) (children []types.ManagedObjectReference) {
	path, isPlace := childPaths[o.Obj.Type]
	if !isPlace {
		return nil
	}
	o.PropSet = slices.DeleteFunc(o.PropSet, func(p types.DynamicProperty) bool {
		if p.Name != path {
			return false
		}
		switch v := p.Val.(type) {
		case types.ManagedObjectReference:
			children = append(children, v)
		case types.ArrayOfManagedObjectReference:
			children = append(children, v.ManagedObjectReference...)
		}
		return true
	})
	return children
}
