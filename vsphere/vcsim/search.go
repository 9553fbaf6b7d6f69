package vcsim

import (
	"reflect"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// viewManager makes views while the inventory stands still.
type viewManager struct {
	*simulator.ViewManager
	*guard
}

// searchIndex searches while the inventory stands still, and does not find what is hidden.
type searchIndex struct {
	*simulator.SearchIndex
	*guard
}

// FindByInventoryPath finds what its caller may see, also in datastore clusters, which the simulator does not.
func (s *searchIndex) FindByInventoryPath(ctx *simulator.Context, req *types.FindByInventoryPath) soap.HasFault {
	root := s.v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.RootFolder
	at := &root
	for _, name := range strings.FieldsFunc(req.InventoryPath, func(c rune) bool { return c == '/' }) {
		if at = s.child(*at, name); at == nil {
			break
		}
	}
	return s.seen(ctx, &methods.FindByInventoryPathBody{Res: &types.FindByInventoryPathResponse{Returnval: at}})
}

// FindChild finds what its caller may see.
func (s *searchIndex) FindChild(ctx *simulator.Context, req *types.FindChild) soap.HasFault {
	if s.v.objects.Get(req.Entity) == nil {
		return &methods.FindChildBody{Fault_: simulator.Fault("", &types.ManagedObjectNotFound{Obj: req.Entity})}
	}
	return s.seen(ctx, &methods.FindChildBody{Res: &types.FindChildResponse{Returnval: s.child(req.Entity, req.Name)}})
}

// child finds what is in an object under a name. It leaves the lists as they are: the simulator appends to them,
// and others read at the same time.
func (s *searchIndex) child(in types.ManagedObjectReference, name string) *types.ManagedObjectReference {
	var children []types.ManagedObjectReference
	switch o := s.v.objects.Get(in).(type) {
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
	found := s.v.objects.FindByName(name, children)
	if found == nil {
		return nil
	}
	ref := found.Reference()
	return &ref
}

// FindByUuid finds what its caller may see.
func (s *searchIndex) FindByUuid(ctx *simulator.Context, req *types.FindByUuid) soap.HasFault {
	return s.seen(ctx, s.SearchIndex.FindByUuid(ctx, req))
}

// FindAllByUuid finds what its caller may see.
func (s *searchIndex) FindAllByUuid(ctx *simulator.Context, req *types.FindAllByUuid) soap.HasFault {
	return s.seen(ctx, s.SearchIndex.FindAllByUuid(ctx, req))
}

// seen takes what is hidden out of an answer: a reference, or several.
func (s *searchIndex) seen(ctx *simulator.Context, body soap.HasFault) soap.HasFault {
	veil := s.v.veil()
	if veil == nil || isAdmin(ctx.Session) || body.Fault() != nil {
		return body
	}
	found := reflect.ValueOf(body).Elem().FieldByName("Res").Elem().FieldByName("Returnval")
	switch refs := found.Interface().(type) {
	case *types.ManagedObjectReference:
		if refs != nil && veil.hides(*refs) {
			found.SetZero()
		}
	case []types.ManagedObjectReference:
		found.Set(reflect.ValueOf(veil.visible(refs)))
	}
	return body
}
