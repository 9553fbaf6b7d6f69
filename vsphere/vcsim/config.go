package vcsim

import (
	"cmp"
	"net"

	"github.com/google/uuid"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/course"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/managed"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/seed"
)

// Config configures a new vCenter. The zero value is a sensible default.
type Config struct {
	// Listen is the host:port of the SDK endpoint. Default: 127.0.0.1 and a free port.
	Listen string
	// Listener, if set, replaces Listen, for example with an in-memory network. Close closes it.
	Listener net.Listener
	// Plain serves http:// instead of https:// on all wires, for in-memory networks, where TLS handshakes take a tenth of the processor
	// time without a benefit. Clients must allow it.
	Plain bool
	// Templates are the names of the VM templates in DC0/vm. Default: "vm-operator-template".
	Templates []string
	// Latency is the duration of tasks. Default: zero.
	Latency course.Latency
	// Limits bound how many tasks run at once. Default: none.
	Limits course.Limits
	// Guest configures what starts in a powered-on VM. Default: nothing.
	Guest managed.Guest
	// User and Password are the credentials for Login. Default: any that are not empty.
	User, Password string
	// InstanceUUID is about.instanceUuid. Default: random.
	InstanceUUID string
	// APIVersion is about.apiVersion. Default: that of 8.0.3. Older versions lack some properties and reject calls that name them.
	APIVersion string
	// Datacenters, Clusters (per datacenter), Hosts (per cluster) and Datastores (per datacenter) count the inventory objects. Default: one
	// of each, so that nothing is ambiguous.
	Datacenters, Clusters, Hosts, Datastores int
	// Pools counts the resource pools below each cluster's root pool. Default: none.
	Pools int
	// Portgroups (DC0_DVPG0, ... of the switch DVS0) and OpaqueNetworks (DC0_NSX0, ...) count the networks per datacenter, in addition to
	// the standard network "VM Network". Default: none.
	Portgroups, OpaqueNetworks int
	// Pods counts the datastore clusters per datacenter: DC0_POD0, ... with two datastores each, DC0_POD0_DS0 and DC0_POD0_DS1. Default:
	// none.
	Pods int
}

func (c Config) withDefaults() Config {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.InstanceUUID = cmp.Or(c.InstanceUUID, uuid.NewString())
	c.APIVersion = cmp.Or(c.APIVersion, "8.0.3.0")
	c.Datacenters = cmp.Or(c.Datacenters, 1)
	c.Clusters = cmp.Or(c.Clusters, 1)
	c.Hosts = cmp.Or(c.Hosts, 1)
	c.Datastores = cmp.Or(c.Datastores, 1)
	if c.Templates == nil {
		c.Templates = []string{"vm-operator-template"}
	}
	return c
}

func (c Config) shape() seed.Shape {
	return seed.Shape{
		APIVersion: c.APIVersion, Datacenters: c.Datacenters, Clusters: c.Clusters, Hosts: c.Hosts, Datastores: c.Datastores, Pools: c.Pools,
		Portgroups: c.Portgroups, OpaqueNetworks: c.OpaqueNetworks, Pods: c.Pods,
	}
}
