// This file finds vCenter's storage policies by name, and which datastores satisfy one.

package places

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

// Policy is a storage Policy: its id, the datastores that satisfy it, by moRef, and whether it encrypts.
type Policy struct {
	ID         string
	Compatible map[string]bool
	Encrypts   bool
}

// Profile returns the profile that sets the policy with that id on a disk or VM.
func Profile(id string) []types.BaseVirtualMachineProfileSpec {
	return []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: id}}
}

// Fitting returns the usable datastores that the policy allows and that hosts of the pool have. If reached is nil, any datastore counts as one that
// the hosts have.
func (p *Policy) Fitting(all *Storage, reached *Reach) (fits []*Object) {
	for i := range all.All {
		if t := &all.All[i]; p.Compatible[t.Ref.Value] && Usable(t) && (reached == nil || slices.Contains(reached.Datastores, t.Ref)) {
			fits = append(fits, t)
		}
	}
	return fits
}

// PolicyKey identifies a policy in a datacenter, whose datastores may satisfy it.
type PolicyKey struct{ ID, Datacenter string }

// StoragePolicies has vCenter's storage policies, and a client of their service (SPBM).
type StoragePolicies struct {
	client *pbm.Client
	ids    map[string]string // by name
}

// ReadStoragePolicies reads all storage policies.
func ReadStoragePolicies(ctx context.Context, client *session.Client, s *session.Session) (*StoragePolicies, error) {
	c, err := client.PBM(ctx, s)
	if err != nil {
		return nil, err
	}
	ids, err := c.QueryProfile(ctx, pbmtypes.PbmProfileResourceType{ResourceType: string(pbmtypes.PbmProfileResourceTypeEnumSTORAGE)},
		string(pbmtypes.PbmProfileCategoryEnumREQUIREMENT))
	if err != nil {
		return nil, session.PBMFailure(err)
	}
	policies := &StoragePolicies{client: c, ids: map[string]string{}}
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

// Find returns the id of the policy with that name. field is the field of the spec that has the name, for the message.
func (b *StoragePolicies) Find(name, field string) (string, error) {
	if id, found := b.ids[name]; found {
		return id, nil
	}
	if len(b.ids) == 0 {
		return "", vcfault.ForOperator(vcfault.ReasonStoragePolicyNotFound, "vCenter shows its user no storage policies, so %q of %s cannot be found: create it, or grant the privilege to see it.", name, field)
	}
	var names []string
	for name := range b.ids {
		names = append(names, name)
	}
	return "", vcfault.ForOperator(vcfault.ReasonStoragePolicyNotFound, "There is no storage policy %q: set %s to one of %s.", name, field, vcfault.Listing(names))
}

// Read returns the policy with that id, and which of the datastores satisfy it.
func (b *StoragePolicies) Read(ctx context.Context, id string, all []naming.Candidate) (p *Policy, err error) {
	p = &Policy{ID: id, Compatible: map[string]bool{}}
	if p.Encrypts, err = b.client.SupportsEncryption(ctx, id); err != nil {
		return nil, session.PBMFailure(err)
	}
	if len(all) == 0 { // given no hubs, the service would check all datastores
		return p, nil
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
		p.Compatible[hub.HubId] = true
	}
	return p, nil
}
