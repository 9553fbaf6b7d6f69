package seed

import (
	"fmt"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// creation is the one global here: the simulator appends to a global of its own (EvalLicense) while it
// makes an inventory, so that two vCenters may not be made at the same moment.
var creation sync.Mutex

// Shape counts what there is in a new inventory.
type Shape struct {
	// Datacenters, Clusters (of each datacenter), Hosts (of each cluster), Datastores (of each datacenter), Pools (below each
	// cluster's own), and of each datacenter Portgroups, OpaqueNetworks and Pods (datastore clusters).
	Datacenters, Clusters, Hosts, Datastores, Pools, Portgroups, OpaqueNetworks, Pods int
	// APIVersion is about.apiVersion.
	APIVersion string
}

// New makes an inventory without a VM: those need the endpoint's extensions.
func New(c Shape, instanceUUID string) (*world.World, error) {
	m := simulator.VPX()
	about := &m.ServiceContent.About
	about.InstanceUuid = instanceUUID
	// The simulator says that it is 6.5; what is made as strict as a real one here is an 8.0.
	about.FullName, about.Version, about.ApiVersion = "VMware vCenter Server 8.0.3 (embedded simulator)", "8.0.3", c.APIVersion
	m.Datacenter, m.Cluster, m.ClusterHost, m.Datastore, m.Pool = c.Datacenters, c.Clusters, c.Hosts, c.Datastores, c.Pools
	m.Host, m.Machine, m.Portgroup, m.OpaqueNetwork, m.Pod = 0, 0, c.Portgroups, c.OpaqueNetworks, c.Pods
	if m.OpaqueNetwork > 0 && m.Portgroup == 0 {
		m.PortgroupNSX = 1 // the simulator makes the switch, which an opaque network needs, only for a port group
	}
	creation.Lock()
	defer creation.Unlock()
	if err := m.Create(); err != nil {
		return nil, fmt.Errorf("create the inventory: %w", err)
	}
	w := world.New(m)
	keepNoLicenses(w)
	ownPools(w)
	skipFieldKey(w)
	connectOpaque(w)
	if c.Pods > 0 {
		return w, fillPods(w)
	}
	return w, nil
}

// keepNoLicenses ends the simulator's bookkeeping of which host has which license. It copies EvalLicense whenever a host is added,
// which may be while another vCenter is made. Nobody here asks for licenses.
func keepNoLicenses(w *world.World) {
	for _, m := range w.Objects.AllReference("LicenseAssignmentManager") {
		w.Objects.RemoveHandler(m.(simulator.RegisterObject))
	}
}

// ownPools gives each pool a summary of its own: the simulator's pools share that of a global template, also with those of other
// vCenters, and one that is created with a name writes that into it. The caller holds creation.
func ownPools(w *world.World) {
	for _, e := range w.Objects.All("ResourcePool") {
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

// skipFieldKey uses up the key 0: the simulator gives it to the first field, a real vCenter to none.
func skipFieldKey(w *world.World) {
	m, ctx := w.Objects.CustomFieldsManager(), w.Context()
	m.AddCustomFieldDef(ctx, &types.AddCustomFieldDef{Name: "0", MoType: "Network"})
	m.RemoveCustomFieldDef(ctx, &types.RemoveCustomFieldDef{Key: 0})
}

// connectOpaque makes the opaque networks known to their datacenter, its clusters and hosts; the simulator does it
// for all other networks.
func connectOpaque(w *world.World) {
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
