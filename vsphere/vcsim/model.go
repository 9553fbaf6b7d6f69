package vcsim

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// creation is the one global here: the simulator appends to a global of its own (EvalLicense) while it
// makes an inventory, so that two vCenters may not be made at the same moment.
var creation sync.Mutex

// createModel makes the inventory, but no VM: those need the endpoint's extensions.
func (v *VCenter) createModel(c Config) error {
	m := simulator.VPX()
	about := &m.ServiceContent.About
	about.InstanceUuid = c.InstanceUUID
	// The simulator says that it is 6.5; what is made as strict as a real one here is an 8.0.
	about.FullName, about.Version, about.ApiVersion = "VMware vCenter Server 8.0.3 (embedded simulator)", "8.0.3", "8.0.3.0"
	m.Datacenter, m.Cluster, m.ClusterHost, m.Datastore, m.Pool = c.Datacenters, c.Clusters, c.Hosts, c.Datastores, c.Pools
	m.Host, m.Machine, m.Portgroup, m.OpaqueNetwork, m.Pod = 0, 0, c.Portgroups, c.OpaqueNetworks, c.Pods
	if m.OpaqueNetwork > 0 && m.Portgroup == 0 {
		m.PortgroupNSX = 1 // the simulator makes the switch, which an opaque network needs, only for a port group
	}
	creation.Lock()
	defer creation.Unlock()
	if err := m.Create(); err != nil {
		return fmt.Errorf("create the inventory: %w", err)
	}
	v.world, v.objects = newWorld(m), m.Map()
	v.ownPools()
	v.skipFieldKey()
	v.connectOpaque()
	if c.Pods > 0 {
		return v.fillPods()
	}
	return nil
}

// ownPools gives each pool a summary of its own: the simulator's pools share that of a global template, also with those of other
// vCenters, and one that is created with a name writes that into it. The caller holds creation.
func (v *VCenter) ownPools() {
	for _, e := range v.objects.All("ResourcePool") {
		pool, is := e.(*simulator.ResourcePool)
		if !is {
			continue
		}
		if shared, is := pool.Summary.(*types.ResourcePoolSummary); is {
			own := *shared
			own.Name = pool.Name
			pool.Summary = &own
		}
	}
}

// furnish logs Admin in and makes the templates.
func (v *VCenter) furnish(c Config) error {
	if err := v.loginAdmin(); err != nil {
		return err
	}
	for _, name := range c.Templates {
		if _, err := v.AddTemplate("/DC0/vm", name); err != nil {
			return err
		}
	}
	return nil
}

// newVM describes a small VM with a disk and a network card.
func newVM(name, datastore string) (types.VirtualMachineConfigSpec, error) {
	spec := types.VirtualMachineConfigSpec{
		Name: name, GuestId: string(types.VirtualMachineGuestOsIdentifierOtherLinux64Guest), NumCPUs: 1, MemoryMB: 1024,
		CpuHotAddEnabled: types.NewBool(false), CpuHotRemoveEnabled: types.NewBool(false), MemoryHotAddEnabled: types.NewBool(false),
		Files: &types.VirtualMachineFileInfo{VmPathName: fmt.Sprintf("[%s]", datastore)},
	}
	var devices object.VirtualDeviceList
	scsi, err := devices.CreateSCSIController("pvscsi")
	if err != nil {
		return spec, err
	}
	disk := devices.CreateDisk(scsi.(types.BaseVirtualController), types.ManagedObjectReference{}, "")
	disk.CapacityInKB = 10 << 20
	backing := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	backing.Uuid, backing.ContentId = uuid.NewString(), newContentID()
	nic, err := devices.CreateEthernetCard("vmxnet3", &types.VirtualEthernetCardNetworkBackingInfo{
		VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: "VM Network"},
	})
	if err != nil {
		return spec, err
	}
	spec.DeviceChange, err = append(devices, scsi, disk, nic).ConfigSpec(types.VirtualDeviceConfigSpecOperationAdd)
	return spec, err
}

// AddVM makes a VM in a folder, as somebody else would: powered off, and a stranger to all.
func (v *VCenter) AddVM(folderPath, name string) (types.ManagedObjectReference, error) {
	ref, err := v.addVM(context.Background(), folderPath, name)
	if err != nil {
		return ref, fmt.Errorf("add VM %s in %s: %w", name, folderPath, err)
	}
	return ref, nil
}

func (v *VCenter) addVM(ctx context.Context, folderPath, name string) (ref types.ManagedObjectReference, err error) {
	folder, err := v.Find(folderPath)
	if err != nil {
		return ref, err
	}
	datastore, pool, err := v.firstPlace(strings.Split(folderPath, "/")[1])
	if err != nil {
		return ref, err
	}
	spec, err := newVM(name, datastore)
	if err != nil {
		return ref, err
	}
	task, err := object.NewFolder(v.admin.Client, folder).CreateVM(ctx, spec, object.NewResourcePool(v.admin.Client, pool), nil)
	if err != nil {
		return ref, err
	}
	info, err := v.result(task)
	if err != nil {
		return ref, err
	}
	return info.Result.(types.ManagedObjectReference), nil
}

// firstPlace is the first datastore and the first cluster's pool of a datacenter.
func (v *VCenter) firstPlace(datacenter string) (datastore string, pool types.ManagedObjectReference, err error) {
	v.world.RLock()
	defer v.world.RUnlock()
	for _, e := range v.objects.All("Datacenter") {
		dc := e.(*simulator.Datacenter)
		if dc.Name != datacenter {
			continue
		}
		for _, ref := range v.objects.Get(dc.DatastoreFolder).(*simulator.Folder).ChildEntity {
			if ds, is := v.objects.Get(ref).(*simulator.Datastore); is && datastore == "" {
				datastore = ds.Name
			}
		}
		for _, ref := range v.objects.Get(dc.HostFolder).(*simulator.Folder).ChildEntity {
			if c, is := v.objects.Get(ref).(*simulator.ClusterComputeResource); is && datastore != "" {
				return datastore, *c.ResourcePool, nil
			}
		}
	}
	return "", pool, fmt.Errorf("no datacenter %s with a datastore and a cluster", datacenter)
}

// AddTemplate makes a VM template in a folder.
func (v *VCenter) AddTemplate(folderPath, name string) (types.ManagedObjectReference, error) {
	ref, err := v.AddVM(folderPath, name)
	if err != nil {
		return ref, err
	}
	return ref, object.NewVirtualMachine(v.admin.Client, ref).MarkAsTemplate(context.Background())
}
