package vcsim

import (
	"cmp"
	"net"

	"github.com/google/uuid"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/managed"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/seed"
)

// Config says what a new vCenter looks like. The zero value is a good first try.
type Config struct {
	// Listen is the host:port of the SDK endpoint. Default: 127.0.0.1 and a free port.
	Listen string
	// Listener is where the SDK endpoint is served instead, if it is set: a network in memory, for one. Close closes it.
	Listener net.Listener
	// Plain serves http:// instead of https://, on all wires: for networks in memory, where handshakes cost a tenth of the
	// processor time and protect nothing. Clients must allow it.
	Plain bool
	// Templates are the names of the VM templates in DC0/vm. Default: "vm-operator-template".
	Templates []string
	// Latency says how long tasks take. Default: no time at all.
	Latency managed.Latency
	// Guest says what comes up in a VM that is powered on. Default: nothing.
	Guest managed.Guest
	// User and Password are what Login accepts. Default: any that are not empty.
	User, Password string
	// InstanceUUID is this vCenter's identity (about.instanceUuid). Default: random.
	InstanceUUID string
	// APIVersion is about.apiVersion. Default: that of 8.0.3. An older one lacks some properties, and refuses calls that name them.
	APIVersion string
	// Datacenters, Clusters (of each datacenter), Hosts (of each cluster) and Datastores (of each
	// datacenter) count what there is. With the default, one of each, nothing is ambiguous.
	Datacenters, Clusters, Hosts, Datastores int
	// Pools counts the resource pools below each cluster's own. Default: none.
	Pools int
	// Portgroups (DC0_DVPG0, ... of the switch DVS0) and OpaqueNetworks (DC0_NSX0, ...) count the networks of each
	// datacenter, besides the standard network "VM Network" that is in each. Default: none.
	Portgroups, OpaqueNetworks int
	// Pods counts the datastore clusters of each datacenter: DC0_POD0, ... with two datastores inside,
	// DC0_POD0_DS0 and DC0_POD0_DS1. Default: none.
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
