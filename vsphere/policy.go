package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/pbm"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// policyBook holds vCenter's storage policies, and the service (SPBM) that has them.
type policyBook struct {
	client *pbm.Client
	ids    map[string]string // by name
}

// compatibleKey is the policy and the datacenter for which datastores are compatible.
type compatibleKey struct{ policy, datacenter string }

func (v *VCenter) readPolicies(ctx context.Context, s *session.Session) (*policyBook, error) {
	c, err := v.client.PBM(ctx, s)
	if err != nil {
		return nil, err
	}
	ids, err := c.QueryProfile(ctx, pbmtypes.PbmProfileResourceType{ResourceType: string(pbmtypes.PbmProfileResourceTypeEnumSTORAGE)},
		string(pbmtypes.PbmProfileCategoryEnumREQUIREMENT))
	if err != nil {
		return nil, session.PBMFailure(err)
	}
	book := &policyBook{client: c, ids: map[string]string{}}
	if len(ids) == 0 {
		return book, nil
	}
	all, err := c.RetrieveContent(ctx, ids)
	if err != nil {
		return nil, session.PBMFailure(err)
	}
	for _, p := range all {
		if p == nil {
			return nil, vcfault.NotVCenterAPI("PbmRetrieveContent", nil)
		}
		book.ids[p.GetPbmProfile().Name] = p.GetPbmProfile().ProfileId.UniqueId
	}
	return book, nil
}

// find returns the id of the policy with that name.
func (b *policyBook) find(name string) (string, error) {
	if id, found := b.ids[name]; found {
		return id, nil
	}
	if len(b.ids) == 0 {
		return "", vcfault.New(vcfault.ReasonStoragePolicyNotFound, true, "vCenter shows its user no storage policies, so %q of spec.placement.storagePolicy cannot be found: create it, or grant the privilege to see it.", name)
	}
	var names []string
	for name := range b.ids {
		names = append(names, name)
	}
	return "", vcfault.New(vcfault.ReasonStoragePolicyNotFound, true, "There is no storage policy %q: set spec.placement.storagePolicy to one of %s.", name, vcfault.Listing(names))
}

// check returns which of the datastores satisfy a policy, by moRef.
func (b *policyBook) check(ctx context.Context, id string, all []naming.Candidate) (map[string]bool, error) {
	fits := map[string]bool{}
	if len(all) == 0 { // without hubs the service would check all datastores
		return fits, nil
	}
	var hubs []pbmtypes.PbmPlacementHub
	for _, c := range all {
		hubs = append(hubs, pbmtypes.PbmPlacementHub{HubType: c.Ref.Type, HubId: c.Ref.Value})
	}
	res, err := b.client.CheckRequirements(ctx, hubs, nil, []pbmtypes.BasePbmPlacementRequirement{
		&pbmtypes.PbmPlacementCapabilityProfileRequirement{ProfileId: pbmtypes.PbmProfileId{UniqueId: id}}})
	if err != nil {
		return nil, session.PBMFailure(err)
	}
	for _, hub := range res.CompatibleDatastores() {
		fits[hub.HubId] = true
	}
	return fits, nil
}

// fillPolicy puts spec.placement.storagePolicy on the clone, and chooses a datastore that satisfies it, where neither the
// spec names one nor the one that would be taken does, or can be used: it may be in maintenance (CAPV#3498), or not be on the hosts of
// the pool, as the template's need not be (CAPV#2134).
func (v *VCenter) fillPolicy(ctx context.Context, s *session.Session, b *cloneBuilder) error {
	known, p, at := &v.lookups, b.details.Spec.Placement, &b.spec.Location
	readPolicies := func() (*policyBook, error) { return v.readPolicies(ctx, s) }
	id, err := looking(ctx, s, &known.policies, "", readPolicies, func(b *policyBook) (string, error) { return b.find(p.StoragePolicy) })
	if err != nil {
		return err
	}
	all, err := v.storageOf(ctx, s, b.datacenter)
	if err != nil {
		return err
	}
	b.compatible, err = known.compatible.get(ctx, s, compatibleKey{id, b.datacenter.ref.Value}, knownFor, func() (map[string]bool, error) {
		book, err := known.policies.get(ctx, s, "", knownFor, readPolicies)
		if err != nil {
			return nil, err
		}
		return book.check(ctx, id, candidatesAmong(all.all, "Datastore"))
	})
	if err != nil {
		return err
	}
	at.Profile = []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: id}}
	if b.pod != nil { // Storage DRS chooses
		return nil
	}
	return v.choosePolicyDatastore(ctx, s, b, all)
}

// choosePolicyDatastore leaves the clone where it would go if that will do, and else puts it on the best datastore that satisfies the
// policy. What the spec names is never overridden.
func (v *VCenter) choosePolicyDatastore(ctx context.Context, s *session.Session, b *cloneBuilder, all *storage) error {
	p, at := b.details.Spec.Placement, &b.spec.Location
	reached, err := v.reachOf(ctx, s, b.datacenter, *at.Pool)
	if err != nil {
		return err
	}
	good := func(t *namedObject) bool {
		return t != nil && b.compatible[t.Ref.Value] && usable(t) && (reached == nil || slices.Contains(reached.datastores, t.Ref))
	}
	taken := all.ownDatastores(b.source)
	if at.Datastore != nil {
		taken = []types.ManagedObjectReference{*at.Datastore}
	}
	misfit := func(ref types.ManagedObjectReference) bool {
		return !b.compatible[ref.Value] || p.Datastore == "" && !good(all.of(ref))
	}
	if len(taken) > 0 && !slices.ContainsFunc(taken, misfit) {
		return nil
	}
	var fits []*namedObject
	var names []string
	for i := range all.all {
		if t := &all.all[i]; good(t) {
			fits, names = append(fits, t), append(names, t.Path)
		}
	}
	switch {
	case len(fits) == 0:
		return vcfault.New(vcfault.ReasonStoragePolicyIncompatible, true, "No datastore that the members' hosts have and can use now satisfies the storage policy %q: give them one that does, or set another spec.placement.storagePolicy.", p.StoragePolicy)
	case p.Datastore != "":
		return vcfault.New(vcfault.ReasonStoragePolicyIncompatible, true, "The datastore %q does not satisfy the storage policy %q: set spec.placement.datastore to one of %s, or remove it.", p.Datastore, p.StoragePolicy, vcfault.Listing(names))
	}
	slices.SortFunc(fits, best)
	at.Datastore = &fits[0].Ref
	return nil
}
