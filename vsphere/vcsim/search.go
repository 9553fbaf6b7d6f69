package vcsim

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// viewManager creates views under the world lock.
type viewManager struct {
	*simulator.ViewManager
	*world.Guard
}

// searchIndex searches under the world lock and omits hidden objects.
type searchIndex struct {
	*simulator.SearchIndex
	*world.Guard
	v *VCenter
}

// FindByInventoryPath also finds objects in datastore clusters, which the simulator does not.
func (s *searchIndex) FindByInventoryPath(ctx *simulator.Context, req *types.FindByInventoryPath) soap.HasFault {
	return s.visible(ctx, &methods.FindByInventoryPathBody{Res: &types.FindByInventoryPathResponse{Returnval: s.v.world.At(req.InventoryPath)}})
}

// FindChild omits hidden objects.
func (s *searchIndex) FindChild(ctx *simulator.Context, req *types.FindChild) soap.HasFault {
	if s.v.objects.Get(req.Entity) == nil {
		return &methods.FindChildBody{Fault_: simulator.Fault("", &types.ManagedObjectNotFound{Obj: req.Entity})}
	}
	return s.visible(ctx, &methods.FindChildBody{Res: &types.FindChildResponse{Returnval: s.v.world.Child(req.Entity, req.Name)}})
}

// FindByUuid omits hidden objects.
func (s *searchIndex) FindByUuid(ctx *simulator.Context, req *types.FindByUuid) soap.HasFault {
	return s.visible(ctx, s.SearchIndex.FindByUuid(ctx, req))
}

// FindAllByUuid omits hidden objects.
func (s *searchIndex) FindAllByUuid(ctx *simulator.Context, req *types.FindAllByUuid) soap.HasFault {
	return s.visible(ctx, s.SearchIndex.FindAllByUuid(ctx, req))
}

// visible removes hidden objects from the reference, or references, in an answer.
func (s *searchIndex) visible(ctx *simulator.Context, body soap.HasFault) soap.HasFault {
	hidden := s.v.Rights.HiddenObjects()
	if hidden == nil || world.IsAdmin(ctx.Session) || body.Fault() != nil {
		return body
	}
	found := reflect.ValueOf(body).Elem().FieldByName("Res").Elem().FieldByName("Returnval")
	switch refs := found.Interface().(type) {
	case *types.ManagedObjectReference:
		if refs != nil && hidden.Hides(*refs) {
			found.SetZero()
		}
	case []types.ManagedObjectReference:
		found.Set(reflect.ValueOf(hidden.Visible(refs)))
	}
	return body
}
