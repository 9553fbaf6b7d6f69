package vcsim

import (
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// path spells an object's place in the inventory. The caller holds the world.
func (w *world) path(ref types.ManagedObjectReference) string {
	var names []string
	for {
		e, ok := w.objects.Get(ref).(mo.Entity)
		if !ok || e.Entity().Parent == nil { // the root has no name here
			slices.Reverse(names)
			return "/" + strings.Join(names, "/")
		}
		names = append(names, e.Entity().Name)
		ref = *e.Entity().Parent
	}
}

// at is the object at an inventory path; nil: there is none. The caller holds the world.
func (w *world) at(path string) *types.ManagedObjectReference {
	root := w.root()
	at := &root
	for _, name := range strings.FieldsFunc(path, func(c rune) bool { return c == '/' }) {
		if at = w.child(*at, name); at == nil {
			break
		}
	}
	return at
}

// child finds what is in an object under a name. It leaves the lists as they are: the simulator appends to them,
// and others read at the same time.
func (w *world) child(in types.ManagedObjectReference, name string) *types.ManagedObjectReference {
	var children []types.ManagedObjectReference
	switch o := w.objects.Get(in).(type) {
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
	found := w.objects.FindByName(name, children)
	if found == nil {
		return nil
	}
	ref := found.Reference()
	return &ref
}

// below says whether an object is another one, or somewhere inside it.
func (w *world) below(ref, ancestor types.ManagedObjectReference) bool {
	for {
		if ref == ancestor {
			return true
		}
		e, ok := w.objects.Get(ref).(mo.Entity)
		if !ok || e.Entity().Parent == nil {
			return false
		}
		ref = *e.Entity().Parent
	}
}

// parentOf is the object that another one is directly inside of; nil: none.
func (w *world) parentOf(ref types.ManagedObjectReference) *types.ManagedObjectReference {
	e, ok := w.objects.Get(ref).(mo.Entity)
	if !ok {
		return nil
	}
	var parent *types.ManagedObjectReference
	w.objects.WithLock(w.context(), ref, func() { parent = e.Entity().Parent })
	return parent
}

// datacenterOf returns the datacenter that an object is in, or nil. The caller holds the world.
func (w *world) datacenterOf(ref types.ManagedObjectReference) *simulator.Datacenter {
	for {
		e, ok := w.objects.Get(ref).(mo.Entity)
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
