package places

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Computes are the clusters, hosts and resource pools of a datacenter.
type Computes struct {
	All []Object
	// Owner is the cluster or host of each pool; Root is the root pool of each cluster or host.
	Owner, Root map[types.ManagedObjectReference]types.ManagedObjectReference
}

var computeKinds = []string{"ClusterComputeResource", "ComputeResource"}

// ReadComputes reads the clusters, hosts and resource pools of a datacenter, in one call.
func ReadComputes(ctx context.Context, s *session.Session, d Datacenter) (*Computes, error) {
	all, err := d.tree(ctx, s, "hostFolder", []types.TraversalSpec{
		{SelectionSpec: types.SelectionSpec{Name: "root"}, Type: "ComputeResource", Path: "resourcePool"},
		{SelectionSpec: types.SelectionSpec{Name: "pools"}, Type: "ResourcePool", Path: "resourcePool"},
	}, types.PropertySpec{Type: "ComputeResource", PathSet: []string{"resourcePool"}}, types.PropertySpec{Type: "ResourcePool"})
	if err != nil {
		return nil, err
	}
	c := &Computes{All: all, Owner: map[types.ManagedObjectReference]types.ManagedObjectReference{}, Root: map[types.ManagedObjectReference]types.ManagedObjectReference{}}
	for _, t := range all { // parents come first
		if pool, is := t.props["resourcePool"].(types.ManagedObjectReference); is && slices.Contains(computeKinds, t.Ref.Type) {
			c.Root[t.Ref], c.Owner[pool] = pool, t.Ref
		} else if above, found := c.Owner[t.parent]; found {
			c.Owner[t.Ref] = above
		}
	}
	return c, nil
}

// Pool finds a resource pool by name: the name of a cluster or host means its root pool. Without a name, Pool returns the root pool of the only
// cluster or host. meant is what the name meant before.
func (c *Computes) Pool(name string, field naming.Setting, meant *naming.Meant) (types.ManagedObjectReference, error) {
	all := Candidates(c.All, computeKinds...)
	fits := naming.Matching(name, all)
	if name != "" {
		all = append(all, Candidates(c.All, "ResourcePool")...)
	}
	if len(fits) == 0 {
		fits = naming.Matching(name, all)
	}
	i, err := field.Pick(meant, "", name, all, fits)
	if err != nil {
		return types.ManagedObjectReference{}, err
	}
	at := all[i]
	if pool, found := c.Root[at.Ref]; found {
		return pool, nil
	}
	if slices.Contains(computeKinds, at.Ref.Type) {
		return at.Ref, vcfault.ForOperator(field.Missing, "The resource pool of %s cannot be seen: grant vCenter's user the right to see it.", at.Path)
	}
	return at.Ref, nil
}

// Reach lists the datastores and networks of a host, or of the hosts of a cluster.
type Reach struct {
	Datastores, Networks []types.ManagedObjectReference
}

// Near reports whether the hosts have a datastore that vCenter can access. If r is nil, nothing is known of the hosts, so that Near goes by the
// access alone.
func (r *Reach) Near(t *Object) bool {
	return t.props["summary.accessible"] != false && (r == nil || slices.Contains(r.Datastores, t.Ref))
}

// ReadReach reads the datastores and networks of a cluster or host. It returns nil if the account can't see them.
func ReadReach(ctx context.Context, s *session.Session, compute types.ManagedObjectReference) (*Reach, error) {
	r := &Reach{}
	o, err := session.ReadProps(ctx, s, compute, session.Refs("datastore", &r.Datastores), session.Refs("network", &r.Networks))
	if err != nil || !o.Found || o.Withheld {
		return nil, err
	}
	return r, nil
}
