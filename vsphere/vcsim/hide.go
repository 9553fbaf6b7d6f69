package vcsim

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Hide takes all rights on an object, and on all that is inside it, from everybody but Admin. It still
// exists: its name stays taken, what is under way goes on. But no traversal and no list shows it, a
// stream says that it left, and whoever names it is told NoPermission, not ManagedObjectNotFound.
func (v *rights) Hide(ref types.ManagedObjectReference) { v.setHidden(ref, true) }

// Show gives back what Hide took.
func (v *rights) Show(ref types.ManagedObjectReference) { v.setHidden(ref, false) }

func (v *rights) setHidden(ref types.ManagedObjectReference, hide bool) {
	v.mu.Lock()
	if hide {
		v.hidden[ref] = true
	} else {
		delete(v.hidden, ref)
	}
	v.mu.Unlock()
	v.objects.WithLock(v.world.context(), ref, func() { v.world.markParent(v.objects.Get(ref)) })
	v.world.mark(ref)
}

// veil is what is hidden during one read.
type veil struct {
	v      *rights
	ctx    *simulator.Context
	hidden map[types.ManagedObjectReference]bool
}

// veil returns nil if nothing is hidden.
func (v *rights) veil() *veil {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.hidden) == 0 {
		return nil
	}
	w := &veil{v: v, ctx: v.world.context(), hidden: make(map[types.ManagedObjectReference]bool, len(v.hidden))}
	for ref := range v.hidden {
		w.hidden[ref] = true
	}
	return w
}

// hides says whether ref, or what it is inside of, is hidden.
func (w *veil) hides(ref types.ManagedObjectReference) bool {
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

func (w *veil) visible(refs []types.ManagedObjectReference) (seen []types.ManagedObjectReference) {
	for _, ref := range refs {
		if !w.hides(ref) {
			seen = append(seen, ref)
		}
	}
	return seen
}

// hiddenArgument finds the first hidden object that a call names. Reads are left to the collector,
// which answers for each object by itself.
func (v *rights) hiddenArgument(m *simulator.Method) (types.ManagedObjectReference, bool) {
	w := v.veil()
	if w == nil || m.This.Type == "PropertyCollector" || m.This.Type == "ListView" {
		return types.ManagedObjectReference{}, false
	}
	for _, ref := range references(reflect.ValueOf(m.Body), nil) {
		if w.hides(ref) {
			return ref, true
		}
	}
	return types.ManagedObjectReference{}, false
}

// unhidden drops what is hidden from what a traversal found, and from the lists in it.
func (w *veil) unhidden(objects []types.ObjectContent) []types.ObjectContent {
	kept := objects[:0]
	for _, o := range objects {
		if w.hides(o.Obj) {
			continue
		}
		for i, p := range o.PropSet {
			if list, ok := p.Val.(types.ArrayOfManagedObjectReference); ok {
				o.PropSet[i].Val = types.ArrayOfManagedObjectReference{ManagedObjectReference: w.visible(list.ManagedObjectReference)}
			}
		}
		kept = append(kept, o)
	}
	return kept
}

// withoutNamed splits what a request names into what may be read, and the answers for the rest.
//
// [doc] ObjectContent.missingSet: "properties for which values could not be retrieved and the
// associated fault"; one of them is NoPermission.
func (w *veil) withoutNamed(specs []types.PropertyFilterSpec) (readable []types.PropertyFilterSpec, refused []types.ObjectContent) {
	for _, spec := range specs {
		var objects []types.ObjectSpec
		for _, o := range spec.ObjectSet {
			if !w.hides(o.Obj) {
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
