package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// reachOf returns the reach of a pool's hosts; nil if it cannot be read.
func (v *VCenter) reachOf(ctx context.Context, s *session.Session, d places.Datacenter, pool types.ManagedObjectReference) (*places.Reach, error) {
	c, err := v.lookups.computes.Get(ctx, s, d.Ref.Value, knownFor, func() (*places.Computes, error) { return places.ReadComputes(ctx, s, d) })
	if err != nil {
		return nil, err
	}
	owner, found := c.Owner[pool]
	if !found {
		return nil, nil
	}
	return v.lookups.reach.Get(ctx, s, owner.Value, knownFor, func() (*places.Reach, error) { return places.ReadReach(ctx, s, owner) })
}

// fillPool sets where the clone runs: in its zone, in spec.placement.pool, or in the pool of the server's settings, which
// applies only in the settings' datacenter.
func (v *VCenter) fillPool(ctx context.Context, b *cloneBuilder) error {
	name, field := b.details.Spec.Placement.Pool, places.PoolField
	if b.details.Zone != "" {
		name, field = b.details.Zone, places.ZonesField
	}
	if name == "" && b.datacenter.OfSettings {
		b.spec.Location.Pool = &b.settings.Pool
		return nil
	}
	return v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		pool, err := session.LookUpIn(ctx, s, &v.lookups.computes, b.datacenter.Ref.Value,
			func() (*places.Computes, error) { return places.ReadComputes(ctx, s, b.datacenter) },
			func(c *places.Computes) (types.ManagedObjectReference, error) { return c.Pool(name, field) })
		b.spec.Location.Pool = &pool
		return err
	})
}
