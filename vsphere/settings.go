package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// settings returns the objects that the configuration names in vCenter, or why they cannot be used.
func (v *parts) settings() (*inventory.Settings, error) {
	at, unfit := v.inventory.Settings()
	switch {
	case unfit != nil:
		return nil, &vcfault.Error{Fault: *unfit}
	case at == nil:
		return nil, vcfault.New(plan.ReasonInventoryNotRead, false, "vCenter's inventory is being read.")
	}
	return at, nil
}

func (v *parts) refit(ctx context.Context) (*inventory.Settings, error) {
	err := v.client.Call(ctx, func(ctx context.Context, s *session.Session) error { return v.stream.Fit(ctx, s) })
	if err != nil {
		return nil, err
	}
	at, err := v.settings()
	if err == nil {
		err = v.reader.Read(ctx, at.Root)
	}
	return at, err
}

// datacenterOf returns the datacenter that a clone's folder is in. Everything that the clone is connected to must be in it.
func (v *parts) datacenterOf(folder types.ManagedObjectReference) (places.Datacenter, error) {
	at, err := v.settings()
	if err != nil {
		return places.Datacenter{}, err
	}
	if in, found := v.inventory.DatacenterAbove(folder.Value); found {
		return places.Datacenter{Ref: in.Ref, Path: in.Path, OfSettings: in.Ref == at.Datacenter}, nil
	}
	return places.Datacenter{}, vcfault.New(vcfault.ReasonGone, false, "The group's folder is gone; the inventory is read again.")
}

const knownFor = session.KnownFor

// lookups keep what clones look up, so that fifty of them need one answer. They are valid for one session: with the next,
// or when an object turns out to be gone, everything is asked for again.
type lookups struct {
	sources    session.Cache[sourceKey, *source]
	computes   session.Cache[string, *places.Computes]
	reach      session.Cache[string, *places.Reach]
	hosts      session.Cache[string, []cloneHost]
	hostGroups session.Cache[string, *hostGroups]
	upgrades   session.Cache[string, *upgrades]
	storage    session.Cache[string, *places.Storage]
	networks   session.Cache[string, *places.Networks]
	policies   session.Cache[string, *storagePolicies]
	policy     session.Cache[policyKey, *policy]
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
func (v *parts) computesOf(ctx context.Context, s *session.Session, d places.Datacenter) (*places.Computes, error) {
	return v.lookups.computes.Get(ctx, s, d.Ref.Value, knownFor, func() (*places.Computes, error) { return places.ReadComputes(ctx, s, d) })
}

// reachOf returns the reach of a pool's hosts; nil if it cannot be read.
func (v *parts) reachOf(ctx context.Context, s *session.Session, d places.Datacenter, pool types.ManagedObjectReference) (*places.Reach, error) {
	c, err := v.computesOf(ctx, s, d)
	if err != nil {
		return nil, err
	}
	owner, found := c.Owner[pool]
	if !found {
		return nil, nil
	}
	return v.lookups.reach.Get(ctx, s, owner.Value, knownFor, func() (*places.Reach, error) { return places.ReadReach(ctx, s, owner) })
}

// storageOf returns the datastores and datastore clusters of a datacenter.
func (v *parts) storageOf(ctx context.Context, s *session.Session, d places.Datacenter) (*places.Storage, error) {
	return v.lookups.storage.Get(ctx, s, d.Ref.Value, knownFor, func() (*places.Storage, error) { return places.ReadStorage(ctx, s, d) })
}
