package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// RegisterExtension registers an extension that can manage VMs with the type "vm".
func (o *Operator) RegisterExtension(key string) error {
	m, err := object.GetExtensionManager(o.admin.Client)
	if err == nil {
		err = m.Register(context.Background(), types.Extension{
			Key: key, Version: "1.0", LastHeartbeatTime: time.Now(), Description: &types.Description{Label: key, Summary: key},
			ManagedEntityInfo: []types.ExtManagedEntityInfo{{Type: "vm", Description: "a member of a group"}},
		})
	}
	if err != nil {
		return fmt.Errorf("register extension %s: %w", key, err)
	}
	return nil
}

// AddCustomizationSpec creates a customization specification: DHCP on one adapter, and the VM's name as host name.
func (o *Operator) AddCustomizationSpec(name string, windows bool) error {
	item := types.CustomizationSpecItem{
		Info: types.CustomizationSpecInfo{Name: name, Type: "Linux", LastUpdateTime: types.NewTime(time.Now())},
		Spec: types.CustomizationSpec{
			Options: &types.CustomizationLinuxOptions{},
			Identity: &types.CustomizationLinuxPrep{
				HostName: &types.CustomizationVirtualMachineName{}, Domain: "example.com", TimeZone: "Etc/UTC", HwClockUTC: types.NewBool(true),
			},
			NicSettingMap: []types.CustomizationAdapterMapping{{Adapter: types.CustomizationIPSettings{Ip: &types.CustomizationDhcpIpGenerator{}}}},
		},
	}
	if windows {
		item.Info.Type = "Windows"
		item.Spec.Options = &types.CustomizationWinOptions{ChangeSID: true}
		item.Spec.Identity = &types.CustomizationSysprep{
			GuiUnattended:  types.CustomizationGuiUnattended{TimeZone: 85},
			UserData:       types.CustomizationUserData{FullName: "VM", OrgName: "Example", ComputerName: &types.CustomizationVirtualMachineName{}},
			Identification: types.CustomizationIdentification{JoinWorkgroup: "WORKGROUP"},
		}
	}
	err := object.NewCustomizationSpecManager(o.admin.Client).CreateCustomizationSpec(context.Background(), item)
	if err != nil {
		return fmt.Errorf("add customization specification %s: %w", name, err)
	}
	return nil
}

// AddRule creates an enabled anti-affinity rule in the cluster at a path.
func (o *Operator) AddRule(clusterPath, name string, vms ...string) error {
	ctx := context.Background()
	ref, err := o.Find(clusterPath)
	if err != nil {
		return err
	}
	rule := &types.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: types.ClusterRuleInfo{Name: name, Enabled: types.NewBool(true)}}
	for _, where := range vms {
		vm, err := o.Find(where)
		if err != nil {
			return fmt.Errorf("add rule %s: %w", name, err)
		}
		rule.Vm = append(rule.Vm, vm)
	}
	task, err := object.NewClusterComputeResource(o.admin.Client, ref).Reconfigure(ctx, &types.ClusterConfigSpecEx{
		RulesSpec: []types.ClusterRuleSpec{{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd}, Info: rule}},
	}, true)
	if err == nil {
		err = task.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("add rule %s: %w", name, err)
	}
	return nil
}

// RemoveSnapshots removes all snapshots of a VM or template.
func (o *Operator) RemoveSnapshots(where string) error {
	return o.onVM("remove the snapshots of", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.RemoveAllSnapshot(ctx, nil)
	})
}

// AddAttribute defines a custom attribute for VMs.
func (o *Operator) AddAttribute(name string) (key int32, err error) {
	m, err := object.GetCustomFieldsManager(o.admin.Client)
	if err != nil {
		return 0, fmt.Errorf("add attribute %s: %w", name, err)
	}
	def, err := m.Add(context.Background(), name, "VirtualMachine", nil, nil)
	if err != nil {
		return 0, fmt.Errorf("add attribute %s: %w", name, err)
	}
	return def.Key, nil
}

// AttributesOf returns the custom attributes of the object at a path, or of the VM with a name.
func (o *Operator) AttributesOf(where string) (map[string]string, error) {
	ref, err := o.Find(where)
	if err != nil {
		return nil, err
	}
	var e mo.ManagedEntity
	if err := o.admin.RetrieveOne(context.Background(), ref, []string{"customValue", "availableField"}, &e); err != nil {
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

// AddStoragePolicy creates a storage policy for the datastores at these paths or, without any, for all. "vSAN Default Storage Policy" and
// "VM Encryption Policy" exist from the start, for all datastores.
func (o *Operator) AddStoragePolicy(name string, datastores ...string) (id string, err error) {
	var refs []types.ManagedObjectReference
	for _, path := range datastores {
		ref, err := o.Find(path)
		if err != nil {
			return "", fmt.Errorf("add storage policy %s: %w", name, err)
		}
		refs = append(refs, ref)
	}
	id = uuid.NewString()
	o.policies.Add(id, name, refs...)
	return id, nil
}
