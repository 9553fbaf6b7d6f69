package rights

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Hide takes all rights on an object, and on all that is inside it, from everybody but Admin. It still
// exists: its name stays taken, what is under way goes on. But no traversal and no list shows it, a
// stream says that it left, and whoever names it is told NoPermission, not ManagedObjectNotFound.
func (v *Rights) Hide(ref types.ManagedObjectReference) { v.setHidden(ref, true) }

// Show gives back what Hide took.
func (v *Rights) Show(ref types.ManagedObjectReference) { v.setHidden(ref, false) }

func (v *Rights) setHidden(ref types.ManagedObjectReference, hide bool) {
	v.mu.Lock()
	if hide {
		v.hidden[ref] = true
	} else {
		delete(v.hidden, ref)
	}
	v.mu.Unlock()
	v.objects.WithLock(v.world.Context(), ref, func() { v.world.MarkParent(v.objects.Get(ref)) })
	v.world.Mark(ref)
}

// Veil is what is hidden during one read.
type Veil struct {
	v      *Rights
	ctx    *simulator.Context
	hidden map[types.ManagedObjectReference]bool
}

// Veil returns nil if nothing is hidden.
func (v *Rights) Veil() *Veil {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.hidden) == 0 {
		return nil
	}
	w := &Veil{v: v, ctx: v.world.Context(), hidden: make(map[types.ManagedObjectReference]bool, len(v.hidden))}
	for ref := range v.hidden {
		w.hidden[ref] = true
	}
	return w
}

// Hides reports whether an object is hidden from the clients.
func (v *Rights) Hides(ref types.ManagedObjectReference) bool {
	w := v.Veil()
	return w != nil && w.Hides(ref)
}

// Hides says whether ref, or what it is inside of, is hidden.
func (w *Veil) Hides(ref types.ManagedObjectReference) bool {
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

// Visible are those that are not hidden.
func (w *Veil) Visible(refs []types.ManagedObjectReference) (seen []types.ManagedObjectReference) {
	for _, ref := range refs {
		if !w.Hides(ref) {
			seen = append(seen, ref)
		}
	}
	return seen
}

// hiddenArgument finds the first hidden object that a call names. Reads are left to the collector,
// which answers for each object by itself.
func (v *Rights) hiddenArgument(m *simulator.Method) (types.ManagedObjectReference, bool) {
	w := v.Veil()
	if w == nil || m.This.Type == "PropertyCollector" || m.This.Type == "ListView" {
		return types.ManagedObjectReference{}, false
	}
	for _, ref := range world.References(reflect.ValueOf(m.Body), nil) {
		if w.Hides(ref) {
			return ref, true
		}
	}
	return types.ManagedObjectReference{}, false
}

// Unhidden drops what is hidden from what a traversal found, and from the lists in it.
func (w *Veil) Unhidden(objects []types.ObjectContent) []types.ObjectContent {
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

// WithoutNamed splits what a request names into what may be read, and the answers for the rest.
//
// [doc] ObjectContent.missingSet: "properties for which values could not be retrieved and the
// associated fault"; one of them is NoPermission.
func (w *Veil) WithoutNamed(specs []types.PropertyFilterSpec) (readable []types.PropertyFilterSpec, refused []types.ObjectContent) {
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
