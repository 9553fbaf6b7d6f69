package vcsim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// operator performs an operator's actions through vCenter's API, as Admin, and waits for their end.
type operator struct {
	v     *inventory
	admin *govmomi.Client
	tags  *tags.Manager
}

// MakeFolder creates the folder at a path and its missing parents.
func (o *operator) MakeFolder(path string) (types.ManagedObjectReference, error) {
	if ref, err := o.v.Find(path); err == nil {
		return ref, nil
	}
	cut := strings.LastIndexByte(path, '/')
	if cut <= 0 {
		return types.ManagedObjectReference{}, fmt.Errorf("create folder %s: no such datacenter", path)
	}
	parent, err := o.MakeFolder(path[:cut])
	if err != nil {
		return parent, err
	}
	f, err := object.NewFolder(o.admin.Client, parent).CreateFolder(context.Background(), path[cut+1:])
	if err != nil {
		return types.ManagedObjectReference{}, fmt.Errorf("create folder %s: %w", path, err)
	}
	return f.Reference(), nil
}

// onVM calls do for the VM with a path or name and waits for its task.
func (o *operator) onVM(what, where string, do func(context.Context, *object.VirtualMachine) (*object.Task, error)) error {
	ref, err := o.v.Find(where)
	if err == nil {
		ctx := context.Background()
		var task *object.Task
		if task, err = do(ctx, object.NewVirtualMachine(o.admin.Client, ref)); err == nil && task != nil {
			_, err = o.v.Result(task)
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, where, err)
	}
	return nil
}

// PowerOn powers on the VM with a path or name.
func (o *operator) PowerOn(where string) error {
	return o.onVM("power on", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.PowerOn(ctx)
	})
}

// PowerOff powers off the VM without a guest shutdown.
func (o *operator) PowerOff(where string) error {
	return o.onVM("power off", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.PowerOff(ctx)
	})
}

// Reset resets the VM.
func (o *operator) Reset(where string) error {
	return o.onVM("reset", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Reset(ctx)
	})
}

// Destroy destroys the VM or template in any power state.
func (o *operator) Destroy(where string) error {
	return o.onVM("destroy", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		if state, err := vm.PowerState(ctx); err == nil && state == types.VirtualMachinePowerStatePoweredOn {
			if task, err := vm.PowerOff(ctx); err == nil {
				_, _ = o.v.Result(task) // if the power-off fails, the destroy fails, too
			}
		}
		return vm.Destroy(ctx)
	})
}

// Answer answers the VM's question with the label of a choice.
func (o *operator) Answer(where, choice string) error {
	return o.onVM("answer", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		var now mo.VirtualMachine
		if err := vm.Properties(ctx, vm.Reference(), []string{"runtime.question"}, &now); err != nil {
			return nil, err
		}
		q := now.Runtime.Question
		if q == nil {
			return nil, errors.New("the VM has no question")
		}
		for _, c := range q.Choice.ChoiceInfo {
			if d := c.GetElementDescription(); d.Label == choice {
				return nil, vm.Answer(ctx, q.Id, d.Key)
			}
		}
		return nil, fmt.Errorf("%q is not one of the choices", choice)
	})
}

// Unregister removes the VM from the inventory. vCenter refuses this for a powered-on VM.
func (o *operator) Unregister(where string) error {
	return o.onVM("unregister", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return nil, vm.Unregister(ctx)
	})
}

// Rename renames the VM.
func (o *operator) Rename(where, name string) error {
	return o.onVM("rename", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Rename(ctx, name)
	})
}

// Move moves the VM into the folder at a path.
func (o *operator) Move(where, folderPath string) error {
	return o.onVM("move", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		folder, err := o.v.Find(folderPath)
		if err != nil {
			return nil, err
		}
		return object.NewFolder(o.admin.Client, folder).MoveInto(ctx, []types.ManagedObjectReference{vm.Reference()})
	})
}

// Reconfigure changes the VM's configuration.
func (o *operator) Reconfigure(where string, spec types.VirtualMachineConfigSpec) error {
	return o.onVM("reconfigure", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Reconfigure(ctx, spec)
	})
}

// SetExtraConfig sets one key of the VM's extraConfig; an empty value removes it.
func (o *operator) SetExtraConfig(where, key, value string) error {
	return o.Reconfigure(where, types.VirtualMachineConfigSpec{
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: key, Value: value}},
	})
}

// firstPool returns the pool of new VMs in a datacenter.
func firstPool(datacenter string) string {
	return "/" + datacenter + "/host/" + datacenter + "_C0/Resources"
}

// firstDatastore is the datastore of new VMs in each datacenter.
const firstDatastore = "LocalDS_0"

// CloneVM clones the VM or template into the folder at a path, with its configuration and extraConfig but a new instanceUuid.
func (o *operator) CloneVM(where, folderPath, name string) error {
	return o.onVM("clone", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		folder, err := o.v.Find(folderPath)
		if err != nil {
			return nil, err
		}
		pool, err := o.v.Find(firstPool("DC0"))
		if err != nil {
			return nil, err
		}
		return vm.Clone(ctx, object.NewFolder(o.admin.Client, folder), name, types.VirtualMachineCloneSpec{
			Location: types.VirtualMachineRelocateSpec{Pool: &pool},
		})
	})
}

// ToTemplate converts the VM to a template.
func (o *operator) ToTemplate(where string) error {
	return o.onVM("convert to a template", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return nil, vm.MarkAsTemplate(ctx)
	})
}

// ToVM converts the template to a VM, in the first cluster's pool.
func (o *operator) ToVM(where string) error {
	return o.onVM("convert to a VM", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		pool, err := o.v.Find(firstPool("DC0"))
		if err != nil {
			return nil, err
		}
		return nil, vm.MarkAsVirtualMachine(ctx, *object.NewResourcePool(o.admin.Client, pool), nil)
	})
}

// newVM returns the spec of a small VM with a disk and a network adapter.
func newVM(name string) (types.VirtualMachineConfigSpec, error) {
	spec := types.VirtualMachineConfigSpec{
		Name: name, GuestId: string(types.VirtualMachineGuestOsIdentifierOtherLinux64Guest), NumCPUs: 1, MemoryMB: 1024,
		CpuHotAddEnabled: types.NewBool(false), CpuHotRemoveEnabled: types.NewBool(false), MemoryHotAddEnabled: types.NewBool(false),
		Files: &types.VirtualMachineFileInfo{VmPathName: "[" + firstDatastore + "]"},
	}
	var devices object.VirtualDeviceList
	scsi, err := devices.CreateSCSIController("pvscsi")
	if err != nil {
		return spec, err
	}
	disk := devices.CreateDisk(scsi.(types.BaseVirtualController), types.ManagedObjectReference{}, "")
	disk.CapacityInKB = 10 << 20
	backing := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	backing.Uuid, backing.ContentId = uuid.NewString(), strings.ReplaceAll(uuid.NewString(), "-", "") // 32 hexadecimal digits, as in vCenter
	nic, err := devices.CreateEthernetCard("vmxnet3", &types.VirtualEthernetCardNetworkBackingInfo{
		VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: "VM Network"},
	})
	if err != nil {
		return spec, err
	}
	spec.DeviceChange, err = append(devices, scsi, disk, nic).ConfigSpec(types.VirtualDeviceConfigSpecOperationAdd)
	return spec, err
}

// AddVM creates an unmanaged, powered-off VM in a folder.
func (o *operator) AddVM(folderPath, name string) (types.ManagedObjectReference, error) {
	ref, err := o.addVM(context.Background(), folderPath, name)
	if err != nil {
		return ref, fmt.Errorf("add VM %s in %s: %w", name, folderPath, err)
	}
	return ref, nil
}

func (o *operator) addVM(ctx context.Context, folderPath, name string) (ref types.ManagedObjectReference, err error) {
	folder, err := o.v.Find(folderPath)
	if err != nil {
		return ref, err
	}
	pool, err := o.v.Find(firstPool(strings.Split(folderPath, "/")[1]))
	if err != nil {
		return ref, err
	}
	spec, err := newVM(name)
	if err != nil {
		return ref, err
	}
	task, err := object.NewFolder(o.admin.Client, folder).CreateVM(ctx, spec, object.NewResourcePool(o.admin.Client, pool), nil)
	if err != nil {
		return ref, err
	}
	info, err := o.v.Result(task)
	if err != nil {
		return ref, err
	}
	return info.Result.(types.ManagedObjectReference), nil
}

// AddTemplate creates a VM template in a folder.
func (o *operator) AddTemplate(folderPath, name string) (types.ManagedObjectReference, error) {
	ref, err := o.AddVM(folderPath, name)
	if err != nil {
		return ref, err
	}
	return ref, object.NewVirtualMachine(o.admin.Client, ref).MarkAsTemplate(context.Background())
}

// MoveDisk moves one disk of the VM with a path or name to the datastore at a path, by Storage vMotion.
func (o *operator) MoveDisk(where string, key int32, datastorePath string) error {
	return o.onVM("move a disk of", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		datastore, err := o.v.Find(datastorePath)
		if err != nil {
			return nil, err
		}
		return vm.Relocate(ctx, types.VirtualMachineRelocateSpec{
			Disk: []types.VirtualMachineRelocateSpecDiskLocator{{DiskId: key, Datastore: datastore}},
		}, types.VirtualMachineMovePriorityDefaultPriority)
	})
}

// AttachDisk also attaches the first disk of one VM to another one and returns its key there. The VMs are given by path or name.
func (o *operator) AttachDisk(of, to string) (key int32, err error) {
	ctx := context.Background()
	from, err := o.v.Find(of)
	if err != nil {
		return 0, fmt.Errorf("attach a disk of %s: %w", of, err)
	}
	devices, err := object.NewVirtualMachine(o.admin.Client, from).Device(ctx)
	if err != nil {
		return 0, fmt.Errorf("attach a disk of %s: %w", of, err)
	}
	disks := devices.SelectByType((*types.VirtualDisk)(nil))
	if len(disks) == 0 {
		return 0, fmt.Errorf("attach a disk of %s: no disk", of)
	}
	disk := disks[0].(*types.VirtualDisk)
	err = o.onVM("attach a disk to", to, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		has, err := vm.Device(ctx)
		if err != nil {
			return nil, err
		}
		controller, err := has.FindDiskController("")
		if err != nil {
			return nil, err
		}
		has.AssignController(disk, controller)
		disk.Key = 2000 + *disk.UnitNumber // as ESXi numbers the disks of the first SCSI controller
		key = disk.Key
		return vm.Reconfigure(ctx, types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
			&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: disk}}})
	})
	return key, err
}

// RegisterExtension registers an extension that can manage VMs with the type "vm".
func (o *operator) RegisterExtension(key string) error {
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
func (o *operator) AddCustomizationSpec(name string, windows bool) error {
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

// reconfigureCluster changes the cluster at a path and waits for the end.
func (o *operator) reconfigureCluster(path string, change types.ClusterConfigSpecEx) error {
	ref, err := o.v.Find(path)
	if err != nil {
		return err
	}
	task, err := object.NewClusterComputeResource(o.admin.Client, ref).Reconfigure(context.Background(), &change, true)
	if err == nil {
		_, err = o.v.Result(task)
	}
	if err != nil {
		return fmt.Errorf("reconfigure %s: %w", path, err)
	}
	return nil
}

// Permit gives a principal the read-only role on the folder at a path.
func (o *operator) Permit(path, principal string) error {
	return at(o.v, "permit on", path, func(f *simulator.Folder) types.BaseMethodFault {
		f.Permission = append(f.Permission, types.Permission{Entity: &f.Self, Principal: principal, RoleId: -2, Propagate: true}) // -2 is read-only
		return nil
	})
}

// SetHostGroup creates a DRS host group in the cluster at a path, or changes its hosts. hosts are paths; without hosts, it removes the group.
func (o *operator) SetHostGroup(clusterPath, name string, hosts ...string) error {
	refs, err := o.v.findAll(hosts)
	if err != nil {
		return fmt.Errorf("set host group %s: %w", name, err)
	}
	change := types.ClusterGroupSpec{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd},
		Info: &types.ClusterHostGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: name, UserCreated: types.NewBool(true)}, Host: refs}}
	if err := at(o.v, "set a host group of", clusterPath, func(c *simulator.ClusterComputeResource) types.BaseMethodFault {
		if (&cluster{ClusterComputeResource: c}).group(escape(name)) != nil {
			change.Operation = types.ArrayUpdateOperationEdit
		}
		return nil
	}); err != nil {
		return err
	}
	if len(hosts) == 0 {
		change = types.ClusterGroupSpec{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationRemove, RemoveKey: name}}
	}
	return o.reconfigureCluster(clusterPath, types.ClusterConfigSpecEx{GroupSpec: []types.ClusterGroupSpec{change}})
}

// AddRule creates an enabled anti-affinity rule in the cluster at a path.
func (o *operator) AddRule(clusterPath, name string, vms ...string) error {
	refs, err := o.v.findAll(vms)
	if err != nil {
		return fmt.Errorf("add rule %s: %w", name, err)
	}
	rule := &types.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: types.ClusterRuleInfo{Name: name, Enabled: types.NewBool(true)}, Vm: refs}
	return o.reconfigureCluster(clusterPath, types.ClusterConfigSpecEx{
		RulesSpec: []types.ClusterRuleSpec{{ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd}, Info: rule}}})
}

// RemoveSnapshots removes all snapshots of a VM or template.
func (o *operator) RemoveSnapshots(where string) error {
	return o.onVM("remove the snapshots of", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.RemoveAllSnapshot(ctx, nil)
	})
}

// AddAttribute defines a custom attribute for VMs.
func (o *operator) AddAttribute(name string) (key int32, err error) {
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
func (o *operator) AttributesOf(where string) (map[string]string, error) {
	ref, err := o.v.Find(where)
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
func (o *operator) AddStoragePolicy(name string, datastores ...string) (id string, err error) {
	refs, err := o.v.findAll(datastores)
	if err != nil {
		return "", fmt.Errorf("add storage policy %s: %w", name, err)
	}
	o.v.world.Lock()
	defer o.v.world.Unlock()
	return o.v.profiles.add(name, refs...), nil
}

// AddTag creates a tag, and its category if that is missing.
func (o *operator) AddTag(category, name string) (id string, err error) {
	ctx := context.Background()
	var of string
	if c, err := o.tags.GetCategory(ctx, category); err == nil {
		of = c.ID
	} else if of, err = o.tags.CreateCategory(ctx, &tags.Category{Name: category, Cardinality: "MULTIPLE"}); err != nil {
		return "", fmt.Errorf("add category %s: %w", category, err)
	}
	if id, err = o.tags.CreateTag(ctx, &tags.Tag{Name: name, CategoryID: of}); err != nil {
		return "", fmt.Errorf("add tag %s/%s: %w", category, name, err)
	}
	return id, nil
}

// Untag detaches all tags from objects, which need not exist.
func (o *operator) Untag(refs ...types.ManagedObjectReference) error {
	ctx := context.Background()
	for _, ref := range refs {
		ids, err := o.tags.ListAttachedTags(ctx, ref)
		for i := 0; err == nil && i < len(ids); i++ {
			err = o.tags.DetachTag(ctx, ids[i], ref)
		}
		if err != nil {
			return fmt.Errorf("untag %s: %w", ref, err)
		}
	}
	return nil
}

// TagsOf lists the tags of the object at a path, or of the VM with a name, as category/name, sorted.
func (o *operator) TagsOf(where string) ([]string, error) {
	ref, err := o.v.Find(where)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	attached, err := o.tags.GetAttachedTags(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("tags of %s: %w", where, err)
	}
	names := make([]string, 0, len(attached))
	for _, tag := range attached {
		category, err := o.tags.GetCategory(ctx, tag.CategoryID)
		if err != nil {
			return nil, fmt.Errorf("tags of %s: %w", where, err)
		}
		names = append(names, category.Name+"/"+tag.Name)
	}
	slices.Sort(names)
	return names, nil
}
