package rights

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Hide withdraws all permissions on an object and its contents from all users but Admin. The object keeps its name and its tasks run on,
// but traversals and lists omit it, a stream reports that it left, and a call that names it gets NoPermission, not ManagedObjectNotFound.
func (v *Rights) Hide(ref types.ManagedObjectReference) { v.setHidden(ref, true) }

// Show undoes Hide.
func (v *Rights) Show(ref types.ManagedObjectReference) { v.setHidden(ref, false) }

func (v *Rights) setHidden(ref types.ManagedObjectReference, hide bool) {
	v.mu.Lock()
	if hide {
		v.hidden[ref] = true
	} else {
		delete(v.hidden, ref)
	}
	v.mu.Unlock()
	v.world.RLock()
	defer v.world.RUnlock()
	v.objects.WithLock(v.world.Context(), ref, func() { v.world.MarkParent(v.objects.Get(ref)) })
	v.world.Mark(ref)
}

// HiddenObjects are the hidden objects during one read.
type HiddenObjects struct {
	v      *Rights
	ctx    *simulator.Context
	hidden map[types.ManagedObjectReference]bool
}

// HiddenObjects returns nil if no object is hidden.
func (v *Rights) HiddenObjects() *HiddenObjects {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.hidden) == 0 {
		return nil
	}
	w := &HiddenObjects{v: v, ctx: v.world.Context(), hidden: make(map[types.ManagedObjectReference]bool, len(v.hidden))}
	for ref := range v.hidden {
		w.hidden[ref] = true
	}
	return w
}

// Hides reports whether an object is hidden from the clients.
func (v *Rights) Hides(ref types.ManagedObjectReference) bool {
	w := v.HiddenObjects()
	if w == nil {
		return false
	}
	v.world.RLock()
	defer v.world.RUnlock()
	return w.Hides(ref)
}

// Hides reports whether ref or an ancestor of it is hidden. The caller holds the world lock.
func (w *HiddenObjects) Hides(ref types.ManagedObjectReference) bool {
	for {
		if w.hidden[ref] {
			return true
		}
		e, ok := w.v.objects.Get(ref).(mo.Entity)
		if !ok {
			return false
		}
		var parent *types.ManagedObjectReference
		w.v.objects.WithLock(w.ctx, ref, func() { parent = e.Entity().Parent })
		if parent == nil {
			return false
		}
		ref = *parent
	}
}

// Visible returns the references that are not hidden. The caller holds the world lock.
func (w *HiddenObjects) Visible(refs []types.ManagedObjectReference) (seen []types.ManagedObjectReference) {
	for _, ref := range refs {
		if !w.Hides(ref) {
			seen = append(seen, ref)
		}
	}
	return seen
}

// hiddenArgument returns the first hidden object that a call names. The collector checks reads itself, because it answers for each object.
func (v *Rights) hiddenArgument(m *simulator.Method) (types.ManagedObjectReference, bool) {
	w := v.HiddenObjects()
	if w == nil || m.This.Type == "PropertyCollector" || m.This.Type == "ListView" {
		return types.ManagedObjectReference{}, false
	}
	v.world.RLock()
	defer v.world.RUnlock()
	for _, ref := range world.References(reflect.ValueOf(m.Body), nil) {
		if w.Hides(ref) {
			return ref, true
		}
	}
	return types.ManagedObjectReference{}, false
}

// WithoutHidden removes hidden objects from the result of a traversal and from the lists in it. The caller holds the world lock.
func (w *HiddenObjects) WithoutHidden(objects []types.ObjectContent) []types.ObjectContent {
	kept := objects[:0]
	for _, o := range objects {
		if w.Hides(o.Obj) {
			continue
		}
		for i, p := range o.PropSet {
			if list, ok := p.Val.(types.ArrayOfManagedObjectReference); ok {
				o.PropSet[i].Val = types.ArrayOfManagedObjectReference{ManagedObjectReference: w.Visible(list.ManagedObjectReference)}
			}
		}
		kept = append(kept, o)
	}
	return kept
}

// SplitNamed splits the objects that a request names into the readable ones and the answers for the hidden ones. The caller holds the
// world lock.
//
// [doc] ObjectContent.missingSet: "properties for which values could not be retrieved and the
// associated fault"; one of them is NoPermission.
func (w *HiddenObjects) SplitNamed(specs []types.PropertyFilterSpec) (readable []types.PropertyFilterSpec, refused []types.ObjectContent) {
	for _, spec := range specs {
		var objects []types.ObjectSpec
		for _, o := range spec.ObjectSet {
			if !w.Hides(o.Obj) {
				objects = append(objects, o)
				continue
			}
			if o.Skip == nil || !*o.Skip {
				refused = append(refused, refusal(o.Obj, spec.PropSet))
			}
		}
		spec.ObjectSet = objects
		readable = append(readable, spec)
	}
	return readable, refused
}

func refusal(ref types.ManagedObjectReference, specs []types.PropertySpec) types.ObjectContent {
	content := types.ObjectContent{Obj: ref}
	fault := types.LocalizedMethodFault{
		Fault: &types.NoPermission{Object: &ref, PrivilegeId: "System.Read"}, LocalizedMessage: "Permission to perform this operation was denied.",
	}
	for _, spec := range specs {
		if spec.Type != ref.Type && spec.Type != "ManagedEntity" {
			continue
		}
		paths := spec.PathSet
		if spec.All != nil && *spec.All {
			paths = []string{"name"}
		}
		for _, path := range paths {
			content.MissingSet = append(content.MissingSet, types.MissingProperty{Path: path, Fault: fault})
		}
	}
	return content
}
