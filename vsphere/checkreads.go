// This file reads vCenter for the check (vsphere/check).

package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// NetworkOf finds a network of the settings' datacenter that the hosts of a pool have.
func (v *VCenter) NetworkOf(ctx context.Context, pool types.ManagedObjectReference, name string) (naming.Candidate, error) {
	in, err := v.ownDatacenter()
	if err != nil {
		return naming.Candidate{}, err
	}
	return v.networkAt(ctx, in, pool, name, "", nil)
}

// OwnerOf returns the cluster or host of a pool in the settings' datacenter; the zero reference if unknown.
func (v *VCenter) OwnerOf(ctx context.Context, pool types.ManagedObjectReference) (owner types.ManagedObjectReference, err error) {
	in, err := v.ownDatacenter()
	if err != nil {
		return owner, err
	}
	err = v.client.Call(ctx, func(ctx context.Context, s *session.Session) error {
		all, err := places.ReadComputes(ctx, s, in)
		if err == nil {
			owner = all.Owner[pool]
		}
		return err
	})
	return owner, err
}

// FindDisks returns the first-class disks in the settings' datacenter whose owner wanted accepts.
func (v *VCenter) FindDisks(ctx context.Context, wanted func(disks.Owner) bool) (found disks.Found, err error) {
	in, err := v.ownDatacenter()
	if err != nil {
		return found, err
	}
	var datastores []string
	err = v.client.Call(ctx, func(ctx context.Context, s *session.Session) error {
		all, err := places.ReadStorage(ctx, s, in)
		if err != nil {
			return err
		}
		for _, at := range places.Candidates(all.All, "Datastore") {
			datastores = append(datastores, at.Ref.Value)
		}
		return nil
	})
	if err == nil {
		found = disks.NewFirstClass(v).Find(ctx, datastores, wanted)
	}
	return found, err
}

// Draft begins a draft for a Clone, which must have details.
func (v *VCenter) Draft(ref plan.Ref, a plan.Action) (*Draft, error) {
	b, err := v.newCloneBuilder(ref, a, a.Folder())
	return &Draft{b}, err
}
