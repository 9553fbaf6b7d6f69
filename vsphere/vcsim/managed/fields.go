package managed

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// fieldsManager is the CustomFieldsManager during one call: it changes the objects' fields while nobody reads them.
type fieldsManager struct {
	*simulator.CustomFieldsManager
	*world.Guard
	v *Objects
}

// SetField announces that the object changed, which the simulator does not. One that went while the call waited for its turn
// would make the simulator panic, with the world held forever.
func (m *fieldsManager) SetField(ctx *simulator.Context, req *types.SetField) soap.HasFault {
	if m.v.objects.Get(req.Entity) == nil {
		return &methods.SetFieldBody{Fault_: simulator.Fault("", &types.ManagedObjectNotFound{Obj: req.Entity})}
	}
	defer m.v.world.Mark(req.Entity)
	return m.CustomFieldsManager.SetField(ctx, req)
}

// AddCustomFieldDef announces that all objects it is for have one more.
func (m *fieldsManager) AddCustomFieldDef(ctx *simulator.Context, req *types.AddCustomFieldDef) soap.HasFault {
	defer m.markAll(req.MoType)
	return m.CustomFieldsManager.AddCustomFieldDef(ctx, req)
}

// RemoveCustomFieldDef announces that all objects have one less.
func (m *fieldsManager) RemoveCustomFieldDef(ctx *simulator.Context, req *types.RemoveCustomFieldDef) soap.HasFault {
	defer m.markAll("")
	return m.CustomFieldsManager.RemoveCustomFieldDef(ctx, req)
}

// RenameCustomFieldDef announces that all objects call it otherwise.
func (m *fieldsManager) RenameCustomFieldDef(ctx *simulator.Context, req *types.RenameCustomFieldDef) soap.HasFault {
	defer m.markAll("")
	return m.CustomFieldsManager.RenameCustomFieldDef(ctx, req)
}

func (m *fieldsManager) markAll(kind string) {
	var refs []types.ManagedObjectReference
	for _, e := range m.v.objects.All(kind) {
		refs = append(refs, e.Reference())
	}
	m.v.world.Mark(refs...)
}
