package vcsim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Details is all else that a VM was given, whoever may see it.
type Details struct {
	VM
	Annotation string
	ManagedBy  *types.ManagedByInfo
	NICs       []NIC
	Disks      []Disk
	// Pool, Host and Datastore (of the home) are inventory paths. A template has no pool.
	Pool, Host, Datastore string
	// Policies are the ids of the storage policies of the home, as its making asked for them.
	Policies []string
	// Customization is the specification that its making, or CustomizeVM_Task, gave it last.
	Customization *types.CustomizationSpec
	// HostName is what the guest reports.
	HostName string
}

// NIC is a network adapter.
type NIC struct {
	Key     int32
	Network string // its name
	MAC     string
	Type    string // "vmxnet3", "e1000", ...
}

// Disk is a virtual disk.
type Disk struct {
	Key       int32
	Datastore string // its inventory path
	File      string // "[datastore] directory/file.vmdk"
	Parent    string // the file it is linked to; empty if none
	Policies  []string
}

// Details describes the VM or template at a path, or of a name.
func (v *VCenter) Details(where string) (Details, error) {
	ref, err := v.Find(where)
	if err != nil {
		return Details{}, err
	}
	v.world.RLock()
	defer v.world.RUnlock()
	vm, ok := v.objects.Get(ref).(*simulator.VirtualMachine)
	if !ok {
		return Details{}, fmt.Errorf("details of %s: it is no VM", where)
	}
	ctx := v.world.context()
	d := Details{VM: v.look(ctx, vm), Policies: v.policies[ref].home}
	if spec := v.customized[ref]; spec != nil {
		d.Customization, err = copyCustomization(*spec)
	}
	v.objects.WithLock(ctx, ref, func() { v.detail(vm, &d) })
	return d, err
}

// detail reads what is in the VM itself. The caller holds its lock.
func (v *VCenter) detail(vm *simulator.VirtualMachine, d *Details) {
	dc := v.datacenterOf(vm.Self)
	d.Annotation, d.HostName = vm.Config.Annotation, vm.Guest.HostName
	if by := vm.Config.ManagedBy; by != nil {
		copied := *by
		d.ManagedBy = &copied
	}
	if vm.ResourcePool != nil {
		d.Pool = v.path(*vm.ResourcePool)
	}
	if vm.Runtime.Host != nil {
		d.Host = v.path(*vm.Runtime.Host)
	}
	d.Datastore = v.datastorePath(dc, vm.Config.Files.VmPathName)
	devices := object.VirtualDeviceList(vm.Config.Hardware.Device)
	for _, device := range devices {
		key := device.GetVirtualDevice().Key
		switch o := device.(type) {
		case types.BaseVirtualEthernetCard:
			card := o.GetVirtualEthernetCard()
			name, _ := v.networkOf(dc, card.Backing)
			d.NICs = append(d.NICs, NIC{Key: key, Network: name, MAC: card.MacAddress, Type: strings.ToLower(strings.TrimPrefix(devices.TypeName(device), "Virtual"))})
		case *types.VirtualDisk:
			disk := Disk{Key: key, Policies: v.policies[vm.Self].disks[key]}
			if b, ok := o.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
				disk.File, disk.Datastore = b.FileName, v.datastorePath(dc, b.FileName)
				if b.Parent != nil {
					disk.Parent = b.Parent.FileName
				}
			}
			d.Disks = append(d.Disks, disk)
		}
	}
}

// datastorePath is the inventory path of a file's datastore.
func (v *VCenter) datastorePath(dc *simulator.Datacenter, file string) string {
	var path object.DatastorePath
	path.FromString(file)
	if ds := v.objects.FindByName(path.Datastore, dc.Datastore); ds != nil {
		return v.path(ds.Reference())
	}
	return ""
}

// RegisterExtension registers an extension, of which VMs can then be managed by the type "vm".
func (v *VCenter) RegisterExtension(key string) error {
	m, err := object.GetExtensionManager(v.admin.Client)
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

// AddCustomizationSpec makes a customization specification: DHCP on one adapter, and the VM's name as the host's.
func (v *VCenter) AddCustomizationSpec(name string, windows bool) error {
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
	err := object.NewCustomizationSpecManager(v.admin.Client).CreateCustomizationSpec(context.Background(), item)
	if err != nil {
		return fmt.Errorf("add customization specification %s: %w", name, err)
	}
	return nil
}

// AddRule makes an enabled rule of the cluster at a path that keeps VMs apart, as an operator does.
func (v *VCenter) AddRule(clusterPath, name string, vms ...string) error {
	ctx := context.Background()
	ref, err := v.Find(clusterPath)
	if err != nil {
		return err
	}
	rule := &types.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: types.ClusterRuleInfo{Name: name, Enabled: types.NewBool(true)}}
	for _, where := range vms {
		vm, err := v.Find(where)
		if err != nil {
			return fmt.Errorf("add rule %s: %w", name, err)
		}
		rule.Vm = append(rule.Vm, vm)
	}
	task, err := object.NewClusterComputeResource(v.admin.Client, ref).Reconfigure(ctx, &types.ClusterConfigSpecEx{
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
