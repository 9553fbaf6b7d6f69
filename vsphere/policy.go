package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// compatibleKey is the policy and the datacenter for which datastores are compatible.
type compatibleKey struct{ policy, datacenter string }

// policy is a storage policy: what puts it on a disk or VM, and the datastores that satisfy it, by moRef.
type policy struct {
	profile    []types.BaseVirtualMachineProfileSpec
	compatible map[string]bool
}

// policyOf finds the storage policy that a field of the spec names.
func (v *VCenter) policyOf(ctx context.Context, s *session.Session, d places.Datacenter, name, field string) (*policy, error) {
	known := &v.lookups
	read := func() (*storagePolicies, error) { return readStoragePolicies(ctx, v.client, s) }
	id, err := session.LookUpIn(ctx, s, &known.policies, "", read, func(b *storagePolicies) (string, error) { return b.Find(name, field) })
	if err != nil {
		return nil, err
	}
	all, err := v.storageOf(ctx, s, d)
	if err != nil {
		return nil, err
	}
	compatible, err := known.compatible.Get(ctx, s, compatibleKey{id, d.Ref.Value}, knownFor, func() (map[string]bool, error) {
		book, err := known.policies.Get(ctx, s, "", knownFor, read)
		if err != nil {
			return nil, err
		}
		return book.Check(ctx, id, places.Candidates(all.All, "Datastore"))
	})
	return &policy{[]types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: id}}, compatible}, err
}

// fillPolicy puts spec.placement.storagePolicy on the clone, and chooses a datastore that satisfies it, where neither the
// spec names one nor the one that would be taken does, or can be used: it may be in maintenance (CAPV#3498), or not be on the hosts of
// the pool, as the template's need not be (CAPV#2134).
func (v *VCenter) fillPolicy(ctx context.Context, s *session.Session, b *cloneBuilder) error {
	at := &b.spec.Location
	policy, err := v.policyOf(ctx, s, b.datacenter, b.details.Spec.Placement.StoragePolicy, "spec.placement.storagePolicy")
	if err != nil {
		return err
	}
	all, err := v.storageOf(ctx, s, b.datacenter)
	if err != nil {
		return err
	}
	b.compatible, at.Profile = policy.compatible, policy.profile
	if b.pod != nil { // Storage DRS chooses
		return nil
	}
	return v.choosePolicyDatastore(ctx, s, b, all)
}

// choosePolicyDatastore leaves the clone where it would go if that will do, and else puts it on the best datastore that satisfies the
// policy. What the spec names is never overridden.
func (v *VCenter) choosePolicyDatastore(ctx context.Context, s *session.Session, b *cloneBuilder, all *places.Storage) error {
	p, at := b.details.Spec.Placement, &b.spec.Location
	reached, err := v.reachOf(ctx, s, b.datacenter, *at.Pool)
	if err != nil {
		return err
	}
	good := func(t *places.Object) bool {
		return t != nil && b.compatible[t.Ref.Value] && places.Usable(t) && (reached == nil || slices.Contains(reached.Datastores, t.Ref))
	}
	taken := ownDatastores(all, b.source)
	if at.Datastore != nil {
		taken = []types.ManagedObjectReference{*at.Datastore}
	}
	misfit := func(ref types.ManagedObjectReference) bool {
		return !b.compatible[ref.Value] || p.Datastore == "" && !good(all.Of(ref))
	}
	if len(taken) > 0 && !slices.ContainsFunc(taken, misfit) {
		return nil
	}
	var fits []*places.Object
	var names []string
	for i := range all.All {
		if t := &all.All[i]; good(t) {
			fits, names = append(fits, t), append(names, t.Path)
		}
	}
	switch {
	case len(fits) == 0:
		return vcfault.New(vcfault.ReasonStoragePolicyIncompatible, true, "No datastore that the members' hosts have and can use now satisfies the storage policy %q: give them one that does, or set another spec.placement.storagePolicy.", p.StoragePolicy)
	case p.Datastore != "":
		return vcfault.New(vcfault.ReasonStoragePolicyIncompatible, true, "The datastore %q does not satisfy the storage policy %q: set spec.placement.datastore to one of %s, or remove it.", p.Datastore, p.StoragePolicy, vcfault.Listing(names))
	}
	slices.SortFunc(fits, places.Best)
	at.Datastore = &fits[0].Ref
	return nil
}
