package world

import (
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Path returns an object's inventory path. The caller holds the world lock.
func (w *World) Path(ref types.ManagedObjectReference) string {
	var names []string
	for {
		e, ok := w.Objects.Get(ref).(mo.Entity)
		if !ok || e.Entity().Parent == nil { // the root has no name here
			slices.Reverse(names)
			return "/" + strings.Join(names, "/")
		}
		names = append(names, e.Entity().Name)
		ref = *e.Entity().Parent
	}
}

// At returns the object at an inventory path, or nil. The caller holds the world lock.
func (w *World) At(path string) *types.ManagedObjectReference {
	root := w.Root()
	at := &root
	for _, name := range strings.FieldsFunc(path, func(c rune) bool { return c == '/' }) {
		if at = w.Child(*at, name); at == nil {
			break
		}
	}
	return at
}

// Child finds a child of an object by name. It does not append to the object's lists, which others may be reading.
func (w *World) Child(in types.ManagedObjectReference, name string) *types.ManagedObjectReference {
	var children []types.ManagedObjectReference
	switch o := w.Objects.Get(in).(type) {
	case *simulator.Datacenter:
		children = []types.ManagedObjectReference{o.VmFolder, o.HostFolder, o.DatastoreFolder, o.NetworkFolder}
	case *simulator.Folder:
		children = o.ChildEntity
	case *simulator.StoragePod:
		children = o.ChildEntity
	case *mo.ComputeResource:
		children = append(slices.Clone(o.Host), *o.ResourcePool)
	case *simulator.ClusterComputeResource:
		children = append(slices.Clone(o.Host), *o.ResourcePool)
	case *simulator.ResourcePool:
		children = slices.Concat(o.ResourcePool.ResourcePool, o.Vm)
	case *simulator.VirtualApp:
		children = slices.Concat(o.ResourcePool.ResourcePool, o.Vm)
	}
	found := w.Objects.FindByName(name, children)
	if found == nil {
		return nil
	}
	ref := found.Reference()
	return &ref
}

// Below reports whether an object is ancestor itself or inside it.
func (w *World) Below(ref, ancestor types.ManagedObjectReference) bool {
	for {
		if ref == ancestor {
			return true
		}
		e, ok := w.Objects.Get(ref).(mo.Entity)
		if !ok || e.Entity().Parent == nil {
			return false
		}
		ref = *e.Entity().Parent
	}
}

// ParentOf returns an object's parent, or nil. The caller holds the world lock.
func (w *World) ParentOf(ref types.ManagedObjectReference) *types.ManagedObjectReference {
	e, ok := w.Objects.Get(ref).(mo.Entity)
	if !ok {
		return nil
	}
	var parent *types.ManagedObjectReference
	w.Objects.WithLock(w.Context(), ref, func() { parent = e.Entity().Parent })
	return parent
}

// DatacenterOf returns an object's datacenter, or nil. The caller holds the world lock.
func (w *World) DatacenterOf(ref types.ManagedObjectReference) *simulator.Datacenter {
	for {
		e, ok := w.Objects.Get(ref).(mo.Entity)
		if !ok {
			return nil
		}
		if dc, ok := e.(*simulator.Datacenter); ok {
			return dc
		}
		if e.Entity().Parent == nil {
			return nil
		}
		ref = *e.Entity().Parent
	}
}
