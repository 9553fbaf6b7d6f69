// This file places the disks of the spec, and checks the disks of a finished clone.

package vsphere

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// wantedDisks finds the datastore and policy of each new disk. b has the pool and datastore of the VM.
func (b *cloneBuilder) wantedDisks(ctx context.Context, all []v1alpha1.Disk) (wanted []disks.Addition, err error) {
	for i := range all {
		w := disks.Addition{Disk: &all[i]}
		if cmp.Or(w.Disk.Datastore, w.Disk.StoragePolicy, b.details.Spec.Placement.StoragePolicy) != "" {
			err = b.Call(ctx, func(ctx context.Context, s *session.Session) error { return b.placeDisk(ctx, s, &w) })
		}
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, w)
	}
	return wanted, nil
}

// placeDisk finds a disk's policy and datastore. A disk without a datastore in the spec goes to the VM's own, or, if the disk's policy does not
// allow that one, to the best one that the policy allows.
func (b *cloneBuilder) placeDisk(ctx context.Context, s *session.Session, w *disks.Addition) error {
	all, err := b.lookups.storageOf(ctx, s, b.datacenter)
	if err != nil {
		return err
	}
	var named *places.Object
	if w.Disk.Datastore != "" {
		among := places.Candidates(all.All, "Datastore")
		i, err := places.DiskField.Choose(w.Disk.Datastore, among)
		if err != nil {
			return err
		}
		named = all.Of(among[i].Ref)
	}
	p := &places.Policy{}
	if name := cmp.Or(w.Disk.StoragePolicy, b.details.Spec.Placement.StoragePolicy); name != "" {
		if p, err = b.lookups.policyOf(ctx, b.client, s, b.datacenter, name, "the storagePolicy of spec.disks"); err != nil {
			return err
		}
		if w.Profile = places.Profile(p.ID); named == nil {
			w.Compatible = p.Compatible
		}
		if p.Encrypts {
			w.Encrypts = p.ID
		}
	}
	switch own := b.spec.Location.Datastore; {
	case named == nil && (w.Disk.StoragePolicy == "" || own != nil && p.Compatible[own.Value]):
		return nil
	case named == nil:
		reached, err := b.lookups.reachOf(ctx, s, b.datacenter, *b.spec.Location.Pool)
		if err != nil {
			return err
		}
		if fits := p.Fitting(all, reached); len(fits) > 0 {
			named = slices.MinFunc(fits, places.Best)
		}
	case w.Disk.StoragePolicy != "" && !p.Compatible[named.Ref.Value]:
		named = nil
	}
	if named == nil {
		return vcfault.ForOperator(vcfault.ReasonStoragePolicyIncompatible, "No datastore that the disk %s could be on satisfies the storage policy %q: set another datastore or storagePolicy in spec.disks.", w.Disk.Name, w.Disk.StoragePolicy)
	}
	w.Datastore = named.Name()
	return nil
}

// checkCloneDisks checks that a VM that never ran has all disks that its stamp records. vCenter can end a clone without an error and without its
// disks.
func checkCloneDisks(record string, devices []types.BaseVirtualDevice, vm string) error {
	lacking := disks.Lacking(record, devices)
	if len(lacking) == 0 {
		return nil
	}
	return vcfault.ForOperator(vcfault.ReasonDiskMissing, "%s was cloned without disks of its template (%s): look at the clone's task in vCenter and at the datastore, and name the member in spec.replace.",
		vm, plan.AtMost(strings.Fields(strings.Trim(fmt.Sprint(lacking), "[]")), 10))
}
