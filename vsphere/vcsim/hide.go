package vcsim

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// Hide withdraws all permissions on an object and its contents from all users but Admin. The object's name stays in use, and its tasks continue,
// but traversals and lists omit it, a stream reports that it left, and a call that names it gets NoPermission, not ManagedObjectNotFound.
func (v *rights) Hide(ref types.ManagedObjectReference) { v.setHidden(ref, true) }

// Show undoes Hide.
func (v *rights) Show(ref types.ManagedObjectReference) { v.setHidden(ref, false) }

func (v *rights) setHidden(ref types.ManagedObjectReference, hide bool) {
	v.world.Lock()
	defer v.world.Unlock()
	if hide {
		v.hidden[ref] = true
	} else {
		delete(v.hidden, ref)
	}
	v.world.MarkParent(v.objects.Get(ref))
	v.world.Mark(ref)
}

// hides reports whether an object or an ancestor of it is hidden from the clients.
func (v *rights) hides(ref types.ManagedObjectReference) bool {
	if len(v.hidden) == 0 {
		return false
	}
	for at := range v.world.Up(ref) {
		if v.hidden[at] {
			return true
		}
	}
	return false
}

// visible returns the references that are not hidden.
func (v *rights) visible(refs []types.ManagedObjectReference) (seen []types.ManagedObjectReference) {
	for _, ref := range refs {
		if !v.hides(ref) {
			seen = append(seen, ref)
		}
	}
	return seen
}

// hiddenArgument returns the first hidden object that a call names. The collector checks reads itself, because it answers for each object.
func (v *rights) hiddenArgument(m *simulator.Method) (types.ManagedObjectReference, bool) {
	if len(v.hidden) > 0 && m.This.Type != "PropertyCollector" {
		for _, ref := range references(reflect.ValueOf(m.Body), nil) {
			if v.hides(ref) {
				return ref, true
			}
		}
	}
	return types.ManagedObjectReference{}, false
}

// withoutHidden removes hidden objects from the result of a traversal and from the lists in it.
func (v *rights) withoutHidden(objects []types.ObjectContent) []types.ObjectContent {
	kept := objects[:0]
	for _, o := range objects {
		if v.hides(o.Obj) {
			continue
		}
		for i, p := range o.PropSet {
			if list, ok := p.Val.(types.ArrayOfManagedObjectReference); ok {
				o.PropSet[i].Val = types.ArrayOfManagedObjectReference{ManagedObjectReference: v.visible(list.ManagedObjectReference)}
			}
		}
		kept = append(kept, o)
	}
	return kept
}

// splitNamed splits the objects that a request names into the readable ones and the answers for the hidden ones.
//
// [doc] ObjectContent.missingSet: "properties for which values could not be retrieved and the
// associated fault"; one of them is NoPermission.
func (v *rights) splitNamed(specs []types.PropertyFilterSpec) (readable []types.PropertyFilterSpec, refused []types.ObjectContent) {
	for _, spec := range specs {
		var objects []types.ObjectSpec
		for _, o := range spec.ObjectSet {
			if !v.hides(o.Obj) {
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

// searchIndex omits hidden objects.
type searchIndex struct {
	*simulator.SearchIndex
	v *VCenter
}

// FindByInventoryPath also finds objects in datastore clusters, which the simulator does not.
func (s *searchIndex) FindByInventoryPath(ctx *simulator.Context, req *types.FindByInventoryPath) soap.HasFault {
	return &methods.FindByInventoryPathBody{Res: &types.FindByInventoryPathResponse{Returnval: s.seen(ctx, s.v.world.At(req.InventoryPath))}}
}

// FindChild omits hidden objects.
func (s *searchIndex) FindChild(ctx *simulator.Context, req *types.FindChild) soap.HasFault {
	if s.v.objects.Get(req.Entity) == nil {
		return &methods.FindChildBody{Fault_: simulator.Fault("", &types.ManagedObjectNotFound{Obj: req.Entity})}
	}
	return &methods.FindChildBody{Res: &types.FindChildResponse{Returnval: s.seen(ctx, s.v.world.Child(req.Entity, req.Name))}}
}

// seen returns nil for an object that is hidden from the client.
func (s *searchIndex) seen(ctx *simulator.Context, ref *types.ManagedObjectReference) *types.ManagedObjectReference {
	if ref != nil && !isAdmin(ctx.Session) && s.v.rights.hides(*ref) {
		return nil
	}
	return ref
}
