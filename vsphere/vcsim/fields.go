package vcsim

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// fieldsManager is the CustomFieldsManager during one call: it changes the objects' fields while nobody reads them.
type fieldsManager struct {
	*simulator.CustomFieldsManager
	*guard
}

// SetField announces that the object changed, which the simulator does not. One that went while the call waited for its turn
// would make the simulator panic, with the world held forever.
func (m *fieldsManager) SetField(ctx *simulator.Context, req *types.SetField) soap.HasFault {
	if m.v.objects.Get(req.Entity) == nil {
		return &methods.SetFieldBody{Fault_: simulator.Fault("", &types.ManagedObjectNotFound{Obj: req.Entity})}
	}
	defer m.v.world.mark(req.Entity)
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
	m.v.world.mark(refs...)
}

// skipFieldKey uses up the key 0: the simulator gives it to the first field, a real vCenter to none.
func (v *VCenter) skipFieldKey() {
	m, ctx := v.objects.CustomFieldsManager(), v.world.context()
	m.AddCustomFieldDef(ctx, &types.AddCustomFieldDef{Name: "0", MoType: "Network"})
	m.RemoveCustomFieldDef(ctx, &types.RemoveCustomFieldDef{Key: 0})
}

// AddAttribute defines a custom attribute for VMs.
func (v *VCenter) AddAttribute(name string) (key int32, err error) {
	m, err := object.GetCustomFieldsManager(v.admin.Client)
	if err != nil {
		return 0, fmt.Errorf("add attribute %s: %w", name, err)
	}
	def, err := m.Add(context.Background(), name, "VirtualMachine", nil, nil)
	if err != nil {
		return 0, fmt.Errorf("add attribute %s: %w", name, err)
	}
	return def.Key, nil
}

// AttributesOf returns what is at a path, or the VM of a name, is told in custom attributes, by their names.
func (v *VCenter) AttributesOf(where string) (map[string]string, error) {
	ref, err := v.Find(where)
	if err != nil {
		return nil, err
	}
	var e mo.ManagedEntity
	if err := v.admin.RetrieveOne(context.Background(), ref, []string{"customValue", "availableField"}, &e); err != nil {
		return nil, fmt.Errorf("attributes of %s: %w", where, err)
	}
	values := make(map[string]string)
	for _, value := range e.CustomValue {
		for _, def := range e.AvailableField {
			if s, ok := value.(*types.CustomFieldStringValue); ok && def.Key == s.Key {
				values[def.Name] = s.Value
			}
		}
	}
	return values, nil
}
