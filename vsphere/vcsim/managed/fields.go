package managed

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// fieldsManager wraps the CustomFieldsManager for one call, which excludes concurrent reads.
type fieldsManager struct {
	*simulator.CustomFieldsManager
	*world.Guard
	v *Objects
}

// SetField marks the object as changed, which the simulator does not. The simulator panics, with the world locked forever, if the object
// vanished while the call waited.
func (m *fieldsManager) SetField(ctx *simulator.Context, req *types.SetField) soap.HasFault {
	if m.v.objects.Get(req.Entity) == nil {
		return &methods.SetFieldBody{Fault_: simulator.Fault("", &types.ManagedObjectNotFound{Obj: req.Entity})}
	}
	defer m.v.world.Mark(req.Entity)
	return m.CustomFieldsManager.SetField(ctx, req)
}

// AddCustomFieldDef marks all objects of the field's type as changed.
func (m *fieldsManager) AddCustomFieldDef(ctx *simulator.Context, req *types.AddCustomFieldDef) soap.HasFault {
	defer m.markAll(req.MoType)
	return m.CustomFieldsManager.AddCustomFieldDef(ctx, req)
}

// RemoveCustomFieldDef marks all objects as changed.
func (m *fieldsManager) RemoveCustomFieldDef(ctx *simulator.Context, req *types.RemoveCustomFieldDef) soap.HasFault {
	defer m.markAll("")
	return m.CustomFieldsManager.RemoveCustomFieldDef(ctx, req)
}

// RenameCustomFieldDef marks all objects as changed.
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
