package vcsim

import (
	"reflect"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
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

// GrantRead withdraws the permission to read from the clients, except on these objects and their contents. Of what contains those, clients see the
// names and the tree (onlyContains). root says whether they may also read the root folder itself. GrantRead has no effect on streams that are open.
//
// [doc] Folder.childEntity, ManagedEntity.name and parent: "Requires System.View privilege". A client finds what it may read from the root folder, although
// it has no permission on the root folder (vmware/govmomi#3455, chef/knife-vsphere#69).
func (v *rights) GrantRead(root bool, on ...types.ManagedObjectReference) {
	v.world.Lock()
	defer v.world.Unlock()
	v.readsRoot, v.readable, v.above = root, make(map[types.ManagedObjectReference]bool), make(map[types.ManagedObjectReference]bool)
	for _, ref := range on {
		v.readable[ref] = true
		for at := range v.world.Up(ref) {
			v.above[at] = true
		}
	}
}

// hidesAny reports whether the clients can't read everything.
func (v *rights) hidesAny() bool { return len(v.hidden) > 0 || v.readable != nil }

// hides reports whether an object or an ancestor of it is hidden from the clients.
func (v *rights) hides(ref types.ManagedObjectReference) bool {
	if !v.hidesAny() {
		return false
	}
	for at := range v.world.Up(ref) {
		if v.hidden[at] {
			return true
		}
	}
	return !v.mayRead(ref) && !v.above[ref]
}

// mayRead reports whether an object is among those of GrantRead or their contents. Objects outside the inventory are for every client.
func (v *rights) mayRead(ref types.ManagedObjectReference) bool {
	if _, is := v.objects.Get(ref).(mo.Entity); !is || v.readable == nil || v.readsRoot && ref == v.world.Root() {
		return true
	}
	for at := range v.world.Up(ref) {
		if v.readable[at] {
			return true
		}
	}
	return false
}

// onlyContains reports whether the clients see an object because they may read something in it, and not the object itself.
func (v *rights) onlyContains(ref types.ManagedObjectReference) bool {
	return v.above[ref] && !v.mayRead(ref)
}

// refusesPages returns the fault with which a vCenter from 7.0.3.2 to 8.0.2 refuses the second page of a read to an account that may not read the root
// folder; nil if it doesn't (vmware/govmomi#3455; DataDog/integrations-core#17445 has the fault).
func (v *rights) refusesPages() types.BaseMethodFault {
	root := v.world.Root()
	if version := v.world.model.ServiceContent.About.ApiVersion; version < "7.0.3.2" || version > "8.0.2.0" || v.mayRead(root) {
		return nil
	}
	return &types.NoPermission{Object: &root, PrivilegeId: "System.Read"}
}

// viewed are the properties that need System.View alone ([doc] ManagedEntity, Folder, Datacenter, ComputeResource).
var viewed = []string{
	"name", "parent", "childEntity", "vmFolder", "hostFolder", "datastoreFolder", "networkFolder", "datastore", "network", "host", "resourcePool", "owner",
	"effectiveRole", "disabledMethod", "overallStatus",
}

// withheld moves the properties that need System.Read to what is missing.
func withheld(o types.ObjectContent) types.ObjectContent {
	var kept []types.DynamicProperty
	for _, p := range o.PropSet {
		if slices.Contains(viewed, p.Name) {
			kept = append(kept, p)
			continue
		}
		o.MissingSet = append(o.MissingSet, types.MissingProperty{Path: p.Name, Fault: mayNotRead(o.Obj)})
	}
	o.PropSet = kept
	return o
}

func mayNotRead(ref types.ManagedObjectReference) types.LocalizedMethodFault {
	return types.LocalizedMethodFault{
		Fault: &types.NoPermission{Object: &ref, PrivilegeId: "System.Read"}, LocalizedMessage: "Permission to perform this operation was denied.",
	}
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
	if v.hidesAny() && m.This.Type != "PropertyCollector" {
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
		if v.onlyContains(o.Obj) {
			o = withheld(o)
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
	fault := mayNotRead(ref)
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
