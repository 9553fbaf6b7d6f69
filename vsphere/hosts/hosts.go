// Package hosts chooses the host for a clone in a cluster without DRS.
//
// Without DRS, vCenter puts a clone that names no host on "a random compatible host" ([doc] VirtualMachineRelocateSpec.host), or, as
// reported of old versions, always on the first host (CAPV#586), and never moves it. So the server chooses, and spreads each group over the
// hosts that can run the clone.
//
// Locks: Capacity.mu is taken last.
package hosts

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

// Host is a host with the properties that matter for a clone.
type Host struct {
	Ref                  types.ManagedObjectReference
	name                 string
	connection           types.HostSystemConnectionState
	power                types.HostSystemPowerState
	maintained           bool // in maintenance mode
	datastores, networks []types.ManagedObjectReference
}

func (h *Host) properties() session.Properties {
	return session.Properties{
		session.To("name", &h.name),
		session.To("runtime.inMaintenanceMode", &h.maintained),
		session.To("runtime.connectionState", &h.connection),
		session.To("runtime.powerState", &h.power),
		session.Refs("datastore", &h.datastores),
		session.Refs("network", &h.networks),
	}
}

// Read reads the hosts of a cluster, and sorts them by name.
func Read(ctx context.Context, s *session.Session, cluster types.ManagedObjectReference) ([]Host, error) {
	objects, err := session.ReadObjects(ctx, s, types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: cluster, Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "ComputeResource", Path: "host"}}}},
		PropSet: []types.PropertySpec{{Type: "HostSystem", PathSet: new(Host).properties().Paths()}},
	})
	all := make([]Host, 0, len(objects))
	for _, o := range objects {
		h := Host{Ref: o.Ref}
		o.Into(h.properties())
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b Host) int { return strings.Compare(a.name, b.name) })
	return all, err
}

// takes reports whether the host can run a clone that needs that datastore and those networks.
//
// Reports differ on whether vCenter shows a host in standby as connected (wxt9861/esxi_stats#20, community.vmware#1570), so its power state counts, too.
func (h *Host) takes(datastore *types.ManagedObjectReference, networks []types.ManagedObjectReference) bool {
	return h.connection == types.HostSystemConnectionStateConnected && h.power != types.HostSystemPowerStateStandBy && !h.maintained && (datastore == nil || slices.Contains(h.datastores, *datastore)) &&
		!slices.ContainsFunc(networks, func(n types.ManagedObjectReference) bool { return !slices.Contains(h.networks, n) })
}

// Mounts reports whether the host has all these datastores.
func (h *Host) Mounts(datastores []types.ManagedObjectReference) bool {
	return !slices.ContainsFunc(datastores, func(d types.ManagedObjectReference) bool { return !slices.Contains(h.datastores, d) })
}

// Choose returns the host with the fewest VMs that can run a VM on that datastore with those networks; nil if there is none. on has the number of
// VMs by the host's moRef. A nil datastore is the template's own, which is not checked. Choose prefers hosts that had room at the last try.
func (c *Capacity) Choose(all []Host, on map[string]int, datastore *types.ManagedObjectReference, networks []types.ManagedObjectReference) *types.ManagedObjectReference {
	all = slices.DeleteFunc(slices.Clone(all), func(h Host) bool { return !h.takes(datastore, networks) })
	if len(all) == 0 {
		return nil
	}
	full := func(h Host) int { return map[bool]int{true: 1}[c.IsFull(h.Ref.Value)] }
	best := slices.MinFunc(all, func(a, b Host) int {
		return cmp.Or(cmp.Compare(full(a), full(b)), cmp.Compare(on[a.Ref.Value], on[b.Ref.Value]), strings.Compare(a.name, b.name))
	})
	return &best.Ref
}

// MayBeBlamed reports whether the chosen host may be the reason why vCenter refused the clone.
func MayBeBlamed(err error) bool {
	return vcfault.Has[types.BaseInvalidArgument](err) || vcfault.Has[types.BaseInvalidDatastore](err) || vcfault.Has[types.BaseCannotAccessNetwork](err) ||
		vcfault.Has[types.BaseInvalidState](err) || vcfault.Has[types.BaseHostCommunication](err) || vcfault.Has[types.BaseHostConnectFault](err) ||
		vcfault.Has[types.BaseNotSupported](err) || vcfault.Has[types.BaseInsufficientResourcesFault](err)
}

const (
	// RefusedOften is how often the host of a VM that never ran must lack resources for it before the member is cloned on another host.
	RefusedOften = 3
	// fullFor is how long a host then counts as full. If all hosts are full, the server tries one clone on each host every fullFor.
	fullFor = time.Hour
	// maxCountedVMs bounds the VMs whose refusals are counted.
	maxCountedVMs = 1000
)

// Capacity counts refusals for a host's lack of resources. Its zero value is empty.
type Capacity struct {
	mu      sync.Mutex
	refused map[string]int       // refusals by the VM's moRef
	until   map[string]time.Time // by the moRef of a full host
}

// IsFull reports whether a host had no room at the last try.
func (c *Capacity) IsFull(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.until[host])
}

// CountRefusal counts a refusal of a VM, and returns how many the VM has had.
func (c *Capacity) CountRefusal(vm string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil || len(c.refused) > maxCountedVMs {
		c.refused = map[string]int{}
	}
	c.refused[vm]++
	return c.refused[vm]
}

// SetFull records that a host has no room.
func (c *Capacity) SetFull(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == nil {
		c.until = map[string]time.Time{}
	}
	c.until[host] = time.Now().Add(fullFor)
}

// SetRan drops the refusals of a VM and of its host, because the host powered the VM on.
func (c *Capacity) SetRan(vm, host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refused, vm)
	delete(c.until, host)
}
