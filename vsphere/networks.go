// This file finds networks by name.

package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// backingOf finds a network by its name or path. If several have the name, it takes the one that the name meant before in the member's zone, or else the one
// that hosts of the pool have.
func (b *cloneBuilder) backingOf(ctx context.Context, name string) (backing types.BaseVirtualDeviceBackingInfo, err error) {
	c, in, pool, zone := b.calls, b.datacenter, *b.spec.Location.Pool, b.details.Zone
	err = c.Call(ctx, func(ctx context.Context, s *session.Session) error {
		ask := func() (*places.Networks, error) { return places.ReadNetworks(ctx, s, in) }
		backing, err = session.LookUpIn(ctx, s, &c.lookups.networks, in.Ref.Value, ask, func(n *places.Networks) (types.BaseVirtualDeviceBackingInfo, error) {
			found, err := n.Find(name, nil, zone, b.meant)
			if e := vcfault.Classify("", err); e != nil && e.Reason == vcfault.ReasonNetworkAmbiguous {
				reached, reachErr := c.lookups.reachOf(ctx, s, in, pool)
				if reachErr != nil {
					return nil, reachErr
				}
				found, err = n.Find(name, reached, zone, b.meant)
			}
			if err != nil {
				return nil, err
			}
			return n.Backing(found)
		})
		return err
	})
	return backing, err
}

// networkAt finds a network by its name or path, among those that hosts of the pool have, or as it was meant before in the zone. It reads vCenter, not the cache.
func (v *parts) networkAt(ctx context.Context, in places.Datacenter, pool types.ManagedObjectReference, name, zone string, meant *naming.Meant) (found naming.Candidate, err error) {
	err = v.client.Call(ctx, func(ctx context.Context, s *session.Session) error {
		all, err := places.ReadNetworks(ctx, s, in)
		if err != nil {
			return err
		}
		reached, err := v.lookups.reachOf(ctx, s, in, pool)
		if err != nil {
			return err
		}
		x, err := all.Find(name, reached, zone, meant)
		if err != nil {
			return err
		}
		if _, err = all.Backing(x); err != nil {
			return err
		}
		if reached != nil && !slices.Contains(reached.Networks, x.Ref) {
			return vcfault.ForOperator(vcfault.ReasonNetworkUnusable, "No host of the resource pool has the network %s: name another one, or connect the hosts to it.", x.Path)
		}
		found = x.Candidate
		return nil
	})
	return found, err
}
