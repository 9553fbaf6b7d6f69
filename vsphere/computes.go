package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// computes are the clusters, hosts and resource pools of a datacenter.
type computes struct {
	all []namedObject
	// owner is the cluster or host of each pool; root is the root pool of each cluster or host.
	owner, root map[types.ManagedObjectReference]types.ManagedObjectReference
}

var computeKinds = []string{"ClusterComputeResource", "ComputeResource"}

func readComputes(ctx context.Context, s *session.Session, d datacenter) (*computes, error) {
	all, err := d.tree(ctx, s, "hostFolder", []types.TraversalSpec{
		{SelectionSpec: types.SelectionSpec{Name: "root"}, Type: "ComputeResource", Path: "resourcePool"},
		{SelectionSpec: types.SelectionSpec{Name: "pools"}, Type: "ResourcePool", Path: "resourcePool"},
	}, types.PropertySpec{Type: "ComputeResource", PathSet: []string{"resourcePool"}}, types.PropertySpec{Type: "ResourcePool"})
	if err != nil {
		return nil, err
	}
	c := &computes{all: all, owner: map[types.ManagedObjectReference]types.ManagedObjectReference{}, root: map[types.ManagedObjectReference]types.ManagedObjectReference{}}
	for _, t := range all { // parents come first
		if pool, is := t.props["resourcePool"].(types.ManagedObjectReference); is && slices.Contains(computeKinds, t.Ref.Type) {
			c.root[t.Ref], c.owner[pool] = pool, t.Ref
		} else if above, found := c.owner[t.parent]; found {
			c.owner[t.Ref] = above
		}
	}
	return c, nil
}

// pool finds a resource pool by name: the root pool of a cluster or host, or a pool; by default that of the only cluster or host.
func (c *computes) pool(name string, field naming.Setting) (types.ManagedObjectReference, error) {
	hosts := candidatesAmong(c.all, computeKinds...)
	i, err := field.Choose(name, hosts)
	if err == nil {
		if pool, found := c.root[hosts[i].Ref]; found {
			return pool, nil
		}
		return hosts[i].Ref, vcfault.New(field.Missing, true, "The resource pool of %s cannot be seen: grant vCenter's user the right to see it.", hosts[i].Path)
	}
	if name == "" || vcfault.Classify("", err).Reason != field.Missing {
		return types.ManagedObjectReference{}, err
	}
	all := append(hosts, candidatesAmong(c.all, "ResourcePool")...)
	if i, err = field.Choose(name, all); err != nil {
		return types.ManagedObjectReference{}, err
	}
	return all[i].Ref, nil
}

// reach lists the datastores and networks that the hosts of a cluster, or a host, have.
type reach struct {
	datastores, networks []types.ManagedObjectReference
}

// readReach gives nil where that is hidden.
func readReach(ctx context.Context, s *session.Session, compute types.ManagedObjectReference) (*reach, error) {
	o, err := session.ReadProps(ctx, s, compute, "datastore", "network")
	if err != nil || !o.Told || o.Withheld {
		return nil, err
	}
	r := &reach{
		datastores: session.Prop[types.ArrayOfManagedObjectReference](o, "datastore").ManagedObjectReference,
		networks:   session.Prop[types.ArrayOfManagedObjectReference](o, "network").ManagedObjectReference,
	}
	return r, nil
}

// reachOf returns the reach of a pool's hosts; nil if it cannot be read.
func (v *VCenter) reachOf(ctx context.Context, s *session.Session, d datacenter, pool types.ManagedObjectReference) (*reach, error) {
	c, err := v.lookups.computes.get(ctx, s, d.ref.Value, knownFor, func() (*computes, error) { return readComputes(ctx, s, d) })
	if err != nil {
		return nil, err
	}
	owner, found := c.owner[pool]
	if !found {
		return nil, nil
	}
	return v.lookups.reach.get(ctx, s, owner.Value, knownFor, func() (*reach, error) { return readReach(ctx, s, owner) })
}

// fillPool sets where the clone runs: in its zone, in spec.placement.pool, or in the pool of the server's settings, which
// applies only in the settings' datacenter.
func (v *VCenter) fillPool(ctx context.Context, b *cloneBuilder) error {
	name, field := b.details.Spec.Placement.Pool, poolField
	if b.details.Zone != "" {
		name, field = b.details.Zone, zonesField
	}
	if name == "" && b.datacenter.ofSettings {
		b.spec.Location.Pool = &b.settings.Pool
		return nil
	}
	return v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		pool, err := looking(ctx, s, &v.lookups.computes, b.datacenter.ref.Value,
			func() (*computes, error) { return readComputes(ctx, s, b.datacenter) },
			func(c *computes) (types.ManagedObjectReference, error) { return c.pool(name, field) })
		b.spec.Location.Pool = &pool
		return err
	})
}
