package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/fate"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// fillHost chooses the host in a cluster without DRS. Where none can take the clone, vCenter chooses, and says why it cannot.
func (v *VCenter) fillHost(ctx context.Context, b *cloneBuilder) error {
	return v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		c, err := v.lookups.computes.Get(ctx, s, b.datacenter.Ref.Value, knownFor, func() (*places.Computes, error) { return places.ReadComputes(ctx, s, b.datacenter) })
		if err != nil {
			return err
		}
		cluster := c.Owner[*b.spec.Location.Pool]
		if !v.inventory.Unplaced(cluster.Value) {
			return nil
		}
		all, err := v.lookups.hosts.Get(ctx, s, cluster.Value, knownFor, func() ([]cloneHost, error) { return readHosts(ctx, s, cluster) })
		if err != nil {
			return err
		}
		v.inFlight.Place(b.ref.UID, b.action.VM, func(on map[string]int) *types.ManagedObjectReference {
			for host, n := range v.inventory.MembersByHost(b.ref.UID) {
				on[host] += n
			}
			b.spec.Location.Host = v.capacity.Choose(all, on, b.spec.Location.Datastore, b.spec.Config.DeviceChange)
			return b.spec.Location.Host
		})
		return nil
	})
}

// unhost leaves the host to vCenter after a clone was refused for a reason that may be the host's, and reports whether the clone is to be tried again.
func (b *cloneBuilder) unhost(err error) bool {
	if b.spec.Location.Host == nil || !mayBeHosts(err) {
		return false
	}
	b.spec.Location.Host = nil
	return true
}

// crowdedOut reports whether a member should be cloned again on another host: its host has refused it several times, DRS does
// not place it, another host could take it, and vCenter's events say that it never ran, so it has no data.
func (v *VCenter) crowdedOut(ctx context.Context, m *inventory.Member) bool {
	others := v.inventory.OtherHosts(m.HostRef)
	if v.inventory.Automation(m) != "" || len(others) == 0 || v.capacity.Refuse(m.MoRef) < CrowdedAfter {
		return false
	}
	v.capacity.Fill(m.HostRef)
	if m.Stamp.Former.Name != "" || !slices.ContainsFunc(others, func(host string) bool { return !v.capacity.Full(host) }) {
		return false
	}
	made, on, err := fate.Life(ctx, v, m.MoRef)
	return err == nil && made && !on
}
