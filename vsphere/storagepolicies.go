// This file finds vCenter's storage policies by name, and which datastores satisfy one.

package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/pbm"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// policy is a storage policy: what puts it on a disk or VM, and the datastores that satisfy it, by moRef.
type policy struct {
	profile    []types.BaseVirtualMachineProfileSpec
	compatible map[string]bool
}

// fitting returns the datastores that the policy allows, that VMs can be put on now, and that hosts of the pool have (all if reached is nil).
func (p *policy) fitting(all *places.Storage, reached *places.Reach) (fits []*places.Object) {
	for i := range all.All {
		if t := &all.All[i]; p.compatible[t.Ref.Value] && places.Usable(t) && (reached == nil || slices.Contains(reached.Datastores, t.Ref)) {
			fits = append(fits, t)
		}
	}
	return fits
}

// compatibleKey is the policy and the datacenter for which datastores are compatible.
type compatibleKey struct{ policy, datacenter string }

// policyOf finds the storage policy that a field of the spec names.
func (v *parts) policyOf(ctx context.Context, s *session.Session, d places.Datacenter, name, field string) (*policy, error) {
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
		policies, err := known.policies.Get(ctx, s, "", knownFor, read)
		if err != nil {
			return nil, err
		}
		return policies.Check(ctx, id, places.Candidates(all.All, "Datastore"))
	})
	return &policy{[]types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: id}}, compatible}, err
}

// storagePolicies has vCenter's storage policies, and the service (SPBM) that has them.
type storagePolicies struct {
	client *pbm.Client
	ids    map[string]string // by name
}

// readStoragePolicies reads the policies.
func readStoragePolicies(ctx context.Context, client *session.Client, s *session.Session) (*storagePolicies, error) {
	c, err := client.PBM(ctx, s)
	if err != nil {
		return nil, err
	}
	ids, err := c.QueryProfile(ctx, pbmtypes.PbmProfileResourceType{ResourceType: string(pbmtypes.PbmProfileResourceTypeEnumSTORAGE)},
		string(pbmtypes.PbmProfileCategoryEnumREQUIREMENT))
	if err != nil {
		return nil, session.PBMFailure(err)
	}
	policies := &storagePolicies{client: c, ids: map[string]string{}}
	if len(ids) == 0 {
		return policies, nil
	}
	all, err := c.RetrieveContent(ctx, ids)
	if err != nil {
		return nil, session.PBMFailure(err)
	}
	for _, p := range all {
		if p == nil {
			return nil, vcfault.NotVCenterAPI("PbmRetrieveContent", nil)
		}
		policies.ids[p.GetPbmProfile().Name] = p.GetPbmProfile().ProfileId.UniqueId
	}
	return policies, nil
}

// Find returns the id of the policy with that name, which that field of the spec has.
func (b *storagePolicies) Find(name, field string) (string, error) {
	if id, found := b.ids[name]; found {
		return id, nil
	}
	if len(b.ids) == 0 {
		return "", vcfault.New(vcfault.ReasonStoragePolicyNotFound, true, "vCenter shows its user no storage policies, so %q of %s cannot be found: create it, or grant the privilege to see it.", name, field)
	}
	var names []string
	for name := range b.ids {
		names = append(names, name)
	}
	return "", vcfault.New(vcfault.ReasonStoragePolicyNotFound, true, "There is no storage policy %q: set %s to one of %s.", name, field, vcfault.Listing(names))
}

// Check returns which of the datastores satisfy a policy, by moRef.
func (b *storagePolicies) Check(ctx context.Context, id string, all []naming.Candidate) (map[string]bool, error) {
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
