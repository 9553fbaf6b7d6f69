// This file chooses the host of a cluster for a clone, if DRS does not.
//
// Without DRS, vCenter puts a clone that names no host on "a random compatible host" ([doc] VirtualMachineRelocateSpec.host), or, as
// reported of old versions, always on the first (CAPV#586), where it stays. So the server chooses: it spreads each group over the
// hosts that can take the clone.
//
// Locks: hostCapacity.mu is taken last.

package vsphere

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// cloneHost is a host with the properties that matter for a clone.
type cloneHost struct {
	ref                  types.ManagedObjectReference
	name                 string
	usable               bool // connected and not in maintenance
	datastores, networks []types.ManagedObjectReference
}

// readHosts reads the hosts of a cluster, by name.
func readHosts(ctx context.Context, s *session.Session, cluster types.ManagedObjectReference) ([]cloneHost, error) {
	objects, err := session.ReadObjects(ctx, s, types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: cluster, Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "ComputeResource", Path: "host"}}}},
		PropSet: []types.PropertySpec{{Type: "HostSystem", PathSet: []string{"name", "runtime.connectionState", "runtime.inMaintenanceMode", "datastore", "network"}}},
	})
	all := make([]cloneHost, 0, len(objects))
	for _, o := range objects {
		connected := session.Prop[types.HostSystemConnectionState](o, "runtime.connectionState") == types.HostSystemConnectionStateConnected
		all = append(all, cloneHost{ref: o.Ref, name: session.Prop[string](o, "name"),
			usable:     connected && !session.Prop[bool](o, "runtime.inMaintenanceMode"),
			datastores: session.Prop[types.ArrayOfManagedObjectReference](o, "datastore").ManagedObjectReference,
			networks:   session.Prop[types.ArrayOfManagedObjectReference](o, "network").ManagedObjectReference})
	}
	slices.SortFunc(all, func(a, b cloneHost) int { return strings.Compare(a.name, b.name) })
	return all, err
}

// takes reports whether a clone with those needs can go onto the host.
func (h *cloneHost) takes(datastore *types.ManagedObjectReference, networks []types.ManagedObjectReference) bool {
	return h.usable && (datastore == nil || slices.Contains(h.datastores, *datastore)) &&
		!slices.ContainsFunc(networks, func(n types.ManagedObjectReference) bool { return !slices.Contains(h.networks, n) })
}

// Choose returns the host with the fewest VMs, as on counts them by moRef, that can take a VM on that datastore (nil: the
// template's own, which is not checked) with those networks. It prefers hosts that had room when last tried. nil if there is none.
func (c *hostCapacity) Choose(all []cloneHost, on map[string]int, datastore *types.ManagedObjectReference, networks []types.ManagedObjectReference) *types.ManagedObjectReference {
	all = slices.DeleteFunc(slices.Clone(all), func(h cloneHost) bool { return !h.takes(datastore, networks) })
	if len(all) == 0 {
		return nil
	}
	full := func(h cloneHost) int { return map[bool]int{true: 1}[c.Full(h.ref.Value)] }
	best := slices.MinFunc(all, func(a, b cloneHost) int {
		return cmp.Or(cmp.Compare(full(a), full(b)), cmp.Compare(on[a.ref.Value], on[b.ref.Value]), strings.Compare(a.name, b.name))
	})
	return &best.ref
}

// mayBeHosts reports whether a clone's refusal may be due to the host that it names.
func mayBeHosts(err error) bool {
	return vcfault.Has[types.BaseInvalidArgument](err) || vcfault.Has[types.BaseInvalidDatastore](err) || vcfault.Has[types.BaseCannotAccessNetwork](err) ||
		vcfault.Has[types.BaseInvalidState](err) || vcfault.Has[types.BaseHostCommunication](err) || vcfault.Has[types.BaseHostConnectFault](err) ||
		vcfault.Has[types.BaseNotSupported](err) || vcfault.Has[types.BaseInsufficientResourcesFault](err)
}

const (
	// RefusedOften is how often a VM that never ran is refused for its host's lack of resources before it is cloned on another host.
	RefusedOften = 3
	// fullFor is how long a host counts as full after that. If all hosts are full, each expiry costs a clone for each host.
	fullFor = time.Hour
	// refusedMost bounds how many VMs are counted.
	refusedMost = 1000
)

// hostCapacity are the refusals for a host's lack of resources. Its zero value is empty.
type hostCapacity struct {
	mu      sync.Mutex
	refused map[string]int       // by the VM's moRef
	until   map[string]time.Time // by the host's
}

// Full reports whether a host had no room when it was last tried.
func (c *hostCapacity) Full(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.until[host])
}

// Refuse counts a refusal, and returns how many there have been for that VM.
func (c *hostCapacity) Refuse(vm string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil || len(c.refused) > refusedMost {
		c.refused = map[string]int{}
	}
	c.refused[vm]++
	return c.refused[vm]
}

// Fill records that a host is full.
func (c *hostCapacity) Fill(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == nil {
		c.until = map[string]time.Time{}
	}
	c.until[host] = time.Now().Add(fullFor)
}

// Ran forgets the refusals of a VM and its host, because the VM was powered on there.
func (c *hostCapacity) Ran(vm, host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refused, vm)
	delete(c.until, host)
}
