// This file caches the objects that clones look up in vCenter by name.

package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/hosts"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/source"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const knownFor = session.KnownFor

// lookups caches what clones look up, so that fifty clones need one answer. The answers are dropped when the session ends, and when an object
// turns out to be gone.
type lookups struct {
	sources    session.Cache[source.Key, *source.Source]
	computes   session.Cache[string, *places.Computes]
	reach      session.Cache[string, *places.Reach]
	hosts      session.Cache[string, []hosts.Host]
	hostGroups session.Cache[string, *hostGroups]
	upgrades   session.Cache[string, *hardware.Upgrades]
	storage    session.Cache[string, *places.Storage]
	networks   session.Cache[string, *places.Networks]
	policies   session.Cache[string, *places.StoragePolicies]
	policy     session.Cache[places.PolicyKey, *places.Policy]
	customs    session.Cache[string, *types.CustomizationSpec]
	extensions session.Cache[string, *types.Extension]
}

// forget drops all answers.
func (l *lookups) forget() {
	l.sources.Forget()
	l.computes.Forget()
	l.reach.Forget()
	l.hosts.Forget()
	l.hostGroups.Forget()
	l.upgrades.Forget()
	l.storage.Forget()
	l.networks.Forget()
	l.policies.Forget()
	l.policy.Forget()
	l.customs.Forget()
	l.extensions.Forget()
}

// computesOf returns the clusters and hosts of a datacenter, and their pools.
func (l *lookups) computesOf(ctx context.Context, s *session.Session, d places.Datacenter) (*places.Computes, error) {
	return l.computes.Get(ctx, s, d.Ref.Value, knownFor, func() (*places.Computes, error) { return places.ReadComputes(ctx, s, d) })
}

// reachOf returns the reach of a pool's hosts; nil if it cannot be read.
func (l *lookups) reachOf(ctx context.Context, s *session.Session, d places.Datacenter, pool types.ManagedObjectReference) (*places.Reach, error) {
	c, err := l.computesOf(ctx, s, d)
	if err != nil {
		return nil, err
	}
	owner, found := c.Owner[pool]
	if !found {
		return nil, nil
	}
	return l.reach.Get(ctx, s, owner.Value, knownFor, func() (*places.Reach, error) { return places.ReadReach(ctx, s, owner) })
}

// storageOf returns the datastores and datastore clusters of a datacenter.
func (l *lookups) storageOf(ctx context.Context, s *session.Session, d places.Datacenter) (*places.Storage, error) {
	return l.storage.Get(ctx, s, d.Ref.Value, knownFor, func() (*places.Storage, error) { return places.ReadStorage(ctx, s, d) })
}

// findHostGroup checks that a cluster has a DRS host group of that name.
func (l *lookups) findHostGroup(ctx context.Context, s *session.Session, cluster types.ManagedObjectReference, name string) error {
	_, err := session.LookUpIn(ctx, s, &l.hostGroups, cluster.Value, func() (*hostGroups, error) {
		var name string
		var config types.ClusterConfigInfoEx
		o, err := session.ReadProps(inventory.WithoutRulesOfOthers(ctx), s, cluster, session.To("name", &name), session.To("configurationEx", &config))
		if err == nil && o.Denied {
			err = vcfault.ForOperator(vcfault.ReasonMissingPrivilege, "The DRS host groups of the cluster %s cannot be seen: grant vCenter's user the privilege System.Read on it.", naming.Unescape(name))
		}
		return &hostGroups{naming.Unescape(name), inventory.HostGroups(&config)}, err
	}, func(g *hostGroups) (string, error) {
		if has, found := inventory.FindHostGroup(g.names, name); found {
			return has, nil
		}
		return "", inventory.NoHostGroup(g.cluster, name, g.names)
	})
	return err
}

// hostGroups are the DRS host groups of a cluster.
type hostGroups struct {
	cluster string
	names   []string
}

// policyOf finds the storage policy that a field of the spec names.
func (l *lookups) policyOf(ctx context.Context, client *session.Client, s *session.Session, d places.Datacenter, name, field string) (*places.Policy, error) {
	read := func() (*places.StoragePolicies, error) { return places.ReadStoragePolicies(ctx, client, s) }
	id, err := session.LookUpIn(ctx, s, &l.policies, "", read, func(b *places.StoragePolicies) (string, error) { return b.Find(name, field) })
	if err != nil {
		return nil, err
	}
	all, err := l.storageOf(ctx, s, d)
	if err != nil {
		return nil, err
	}
	return l.policy.Get(ctx, s, places.PolicyKey{ID: id, Datacenter: d.Ref.Value}, knownFor, func() (*places.Policy, error) {
		policies, err := l.policies.Get(ctx, s, "", knownFor, read)
		if err != nil {
			return nil, err
		}
		return policies.Read(ctx, id, places.Candidates(all.All, "Datastore"))
	})
}

// extension returns the extension that members' managedBy names; nil if it is not registered. (vCenter refuses a managedBy with an unregistered
// extension; a simulator accepts it.)
func (l *lookups) extension(ctx context.Context, s *session.Session) (*types.Extension, error) {
	manager := s.Vim.ServiceContent.ExtensionManager
	if manager == nil {
		return nil, nil
	}
	return l.extensions.Get(ctx, s, role.ExtensionKey, extensionKnownFor, func() (*types.Extension, error) {
		res, err := methods.FindExtension(ctx, s.Vim, &types.FindExtension{This: *manager, ExtensionKey: role.ExtensionKey})
		switch e := vcfault.Classify("", err); {
		case e == nil:
			return res.Returnval, nil
		case e.Reason == vcfault.ReasonNotAuthenticated, e.Reason == vcfault.ReasonVCenterUnreachable, e.Reason == vcfault.ReasonCancelled:
			return nil, err
		}
		return nil, nil // the account may not read extensions: the clone does without
	})
}
