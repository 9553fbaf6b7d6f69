package narrow

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Tree reads props of every place and VM, in one call with the traversal all. If that fails for one object, it goes down level by
// level, by moRefs. It also returns what cannot be read: VMs, and places for which our user has no permission, which are as
// good as hidden. It must know the content of every other place.
func Tree(ctx context.Context, s *session.Session, all []types.ObjectSpec, props []types.PropertySpec) (objects []types.ObjectContent, unread []types.ManagedObjectReference, err error) {
	root := s.Vim.ServiceContent.RootFolder
	objects, err = session.Retrieve(ctx, s, types.PropertyFilterSpec{ObjectSet: all, PropSet: props})
	if err == nil || Fatal(err) {
		return objects, nil, err
	}
	objects = nil
	perLevel := levelSpec(props)
	for level, seen := []types.ManagedObjectReference{root}, map[types.ManagedObjectReference]bool{root: true}; len(level) > 0; {
		var below []types.ManagedObjectReference
		for chunk := range slices.Chunk(level, Bulk) {
			n := New(s, perLevel, perLevel)
			if err := n.Read(ctx, chunk); err != nil {
				return nil, nil, err
			}
			for i := range n.Objects {
				below = append(below, takeChildren(&n.Objects[i])...)
			}
			objects = append(objects, n.Objects...)
			for ref, why := range n.Unread {
				if ref.Type != "VirtualMachine" && !vcfault.Has[types.BaseNoPermission](why) {
					return nil, nil, why
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
	return objects, unread, nil
}

// treeTypes are what Tree reads.
var treeTypes = []string{"Folder", "Datacenter", "VirtualApp", "VirtualMachine"}

// childPaths lead to the children of a place.
var childPaths = map[string]string{"Folder": "childEntity", "Datacenter": "vmFolder", "VirtualApp": "vm"}

// levelSpec reads props of objects, and their children.
func levelSpec(props []types.PropertySpec) Spec {
	return func(refs []types.ManagedObjectReference) (spec types.PropertyFilterSpec) {
		for _, p := range props {
			if path := childPaths[p.Type]; path != "" {
				p.PathSet = append(slices.Clone(p.PathSet), path)
			}
			spec.PropSet = append(spec.PropSet, p)
		}
		for _, ref := range refs {
			spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
		}
		return spec
	}
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
