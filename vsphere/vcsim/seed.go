package vcsim

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
)

// creation serializes the creation of inventories, because the simulator appends to a global variable (EvalLicense) during each.
var creation sync.Mutex

// seed creates an inventory without VMs: those need the extensions of the endpoint.
func seed(c Config) (*world, error) {
	m := simulator.VPX()
	about := &m.ServiceContent.About
	about.InstanceUuid = c.InstanceUUID
	// The simulator reports 6.5, but this vCenter is as strict as an 8.0.
	about.FullName, about.Version, about.ApiVersion = "VMware vCenter Server 8.0.3 (embedded simulator)", "8.0.3", c.APIVersion
	m.Datacenter, m.Cluster, m.ClusterHost, m.Datastore, m.Pool = c.Datacenters, c.Clusters, c.Hosts, c.Datastores+c.Pods*podDatastores, c.Pools
	m.Host, m.Machine, m.Portgroup, m.OpaqueNetwork, m.Pod = 0, 0, c.Portgroups, c.OpaqueNetworks, c.Pods
	if m.OpaqueNetwork > 0 && m.Portgroup == 0 {
		m.PortgroupNSX = 1 // only for a port group does the simulator create the switch that an opaque network needs
	}
	creation.Lock()
	defer creation.Unlock()
	if err := m.Create(); err != nil {
		return nil, fmt.Errorf("create the inventory: %w", err)
	}
	w := newWorld(m)
	keepNoLicenses(w)
	enlargeHosts(w)
	ownPools(w, int64(c.Hosts)*hostMemory)
	skipFieldKey(w)
	connectOpaque(w)
	if c.Pods > 0 {
		return w, fillPods(w, c.Datastores)
	}
	return w, nil
}

// keepNoLicenses stops the simulator's accounting of host licenses: it copies EvalLicense whenever a host is added, possibly while another
// vCenter is created. Nothing here uses licenses.
func keepNoLicenses(w *world) {
	for _, m := range w.Objects.AllReference("LicenseAssignmentManager") {
		w.Objects.RemoveHandler(m.(simulator.RegisterObject))
	}
}

// enlargeHosts gives each host 64 logical CPUs and 512 GiB of memory. The simulator's hosts have 2, and 4 GiB, where no two members have room.
func enlargeHosts(w *world) {
	for _, e := range w.Objects.All("HostSystem") {
		if host, is := e.(*simulator.HostSystem); is {
			own := *host.Summary.Hardware
			own.NumCpuPkgs, own.NumCpuCores, own.NumCpuThreads, own.MemorySize = 2, 32, hostThreads, hostMemory
			host.Summary.Hardware = &own
		}
	}
}

// What a host has: logical CPUs, and memory in bytes.
const (
	hostThreads = 64
	hostMemory  = 512 << 30
)

// ownPools gives each pool its own summary. The simulator's pools share that of a global template, even across vCenters, and the creation
// of a named pool writes its name to it. The pool's VMs can have, and reserve, so many bytes of memory.
func ownPools(w *world, bytes int64) {
	for _, e := range w.Objects.All("ResourcePool") {
		pool, is := e.(*simulator.ResourcePool)
		if !is {
			continue
		}
		memory := &pool.Runtime.Memory
		memory.MaxUsage, memory.UnreservedForPool, memory.UnreservedForVm = bytes, bytes, bytes
		if shared, is := pool.Summary.(*types.ResourcePoolSummary); is {
			own := *shared
			own.Name = pool.Name
			pool.Summary = &own
		}
	}
}

// skipFieldKey uses up key 0, which the simulator gives to the first custom field, and a real vCenter to no field.
func skipFieldKey(w *world) {
	m, ctx := w.Objects.CustomFieldsManager(), w.Context()
	m.AddCustomFieldDef(ctx, &types.AddCustomFieldDef{Name: "0", MoType: "Network"})
	m.RemoveCustomFieldDef(ctx, &types.RemoveCustomFieldDef{Key: 0})
}

// connectOpaque adds the opaque networks to their datacenter, its clusters and hosts, which the simulator does only for other networks.
func connectOpaque(w *world) {
	for _, e := range w.Objects.All("OpaqueNetwork") {
		ref, dc := e.Reference(), w.DatacenterOf(e.Reference())
		dc.Network = append(dc.Network, ref)
		for _, kind := range []string{"ClusterComputeResource", "HostSystem"} {
			for _, e := range w.Objects.All(kind) {
				if w.DatacenterOf(e.Reference()) != dc {
					continue
				}
				switch o := e.(type) {
				case *simulator.ClusterComputeResource:
					o.Network = append(o.Network, ref)
				case *simulator.HostSystem:
					o.Network = append(o.Network, ref)
				}
			}
		}
	}
}

// podDatastores is the number of datastores in each datastore cluster.
const podDatastores = 2

// fillPods moves the last datastores of each datacenter into its datastore clusters.
func fillPods(w *world, datastores int) error {
	ctx, taken := context.Background(), make(map[*simulator.Datacenter]int)
	c, err := vim25.NewClient(ctx, w.Service)
	if err != nil {
		return fmt.Errorf("fill the datastore clusters: %w", err)
	}
	for _, e := range w.Objects.All("StoragePod") {
		pod, dc := e.(*simulator.StoragePod), w.DatacenterOf(e.Reference())
		first := datastores + taken[dc]*podDatastores
		own := slices.Clone(dc.Datastore[first : first+podDatastores])
		taken[dc]++
		for i, ref := range own {
			ds := w.Objects.Get(ref).(*simulator.Datastore)
			ds.Name = fmt.Sprintf("%s_DS%d", pod.Name, i)
			ds.Summary.Name, ds.Info.GetDatastoreInfo().Name = ds.Name, ds.Name
		}
		// Move all at once: at each move, the simulator counts the folder's contents again.
		task, err := object.NewFolder(c, pod.Self).MoveInto(ctx, own)
		if err == nil {
			err = task.Wait(ctx)
		}
		if err != nil {
			return fmt.Errorf("fill the datastore cluster %s: %w", pod.Name, err)
		}
	}
	return nil
}

// The simulator copies a host's configuration through XML for each host it creates. Most of the startup time of an embedded vCenter went
// into the firewall rules, services, network adapters and certificate (an element per byte) of a captured ESXi host. Only what the
// simulator itself reads is kept.
func init() {
	full := esx.HostConfigInfo
	esx.HostConfigInfo = types.HostConfigInfo{
		Host:                  full.Host,
		Product:               full.Product,
		StorageDevice:         &types.HostStorageDeviceInfo{},
		FileSystemVolume:      full.FileSystemVolume,
		Network:               &types.HostNetworkInfo{Portgroup: full.Network.Portgroup},
		VirtualNicManagerInfo: &types.HostVirtualNicManagerInfo{},
	}
	esx.AdvancedOptions = esx.AdvancedOptions[:1]
}
