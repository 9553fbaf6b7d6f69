package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func (v *VCenter) storageOf(ctx context.Context, s *session.Session, d places.Datacenter) (*places.Storage, error) {
	return v.lookups.storage.Get(ctx, s, d.Ref.Value, knownFor, func() (*places.Storage, error) { return places.ReadStorage(ctx, s, d) })
}

// fillStorage sets the clone's storage and policy: spec.placement.datastore, the
// datastore of the server's settings (in their datacenter), or the template's own. If the spec names none and the policy
// does not allow the default, it takes one that the policy allows.
func (v *VCenter) fillStorage(ctx context.Context, b *cloneBuilder) error {
	p := b.details.Spec.Placement
	if p.Datastore == "" && b.datacenter.OfSettings {
		b.spec.Location.Datastore = b.settings.Datastore
	}
	if p.Datastore == "" && p.StoragePolicy == "" {
		return nil
	}
	return v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		b.pod, b.spec.Location.Profile = nil, nil
		if p.Datastore != "" {
			found, err := session.LookUpIn(ctx, s, &v.lookups.storage, b.datacenter.Ref.Value,
				func() (*places.Storage, error) { return places.ReadStorage(ctx, s, b.datacenter) },
				func(x *places.Storage) (*places.Object, error) { return x.Find(p.Datastore) })
			if err != nil {
				return err
			}
			if found.Ref.Type == "StoragePod" {
				b.pod, b.spec.Location.Datastore = found, nil
			} else {
				b.spec.Location.Datastore = &found.Ref
			}
		}
		if p.StoragePolicy == "" {
			return nil
		}
		return v.fillPolicy(ctx, s, b)
	})
}

// fillDatastore makes Storage DRS recommend a datastore, if the clone goes into a datastore cluster. It is the last step, and
// the request has neither user data nor a customization. [doc] StoragePlacementSpec: vm, folder, cloneName
// and cloneSpec describe a clone.
//
// The clone then goes onto that datastore as onto any other. ApplyStorageDrsRecommendation_Task would do it, too, but is
// another kind of task than other clones. Clones that ask at once may get the same datastore.
func (v *VCenter) fillDatastore(ctx context.Context, b *cloneBuilder) error {
	if b.pod == nil {
		b.fillDisks()
		return nil
	}
	if b.pod.DRSOff() {
		return vcfault.New(vcfault.ReasonDatastoreNotFound, true, "Storage DRS is off for the datastore cluster %s, so it recommends no datastore: turn it on, or set spec.placement.datastore to one of the datastores in it.", b.pod.Path)
	}
	location := b.spec.Location
	location.DeviceChange, location.Disk = nil, nil
	vm, folder := inventory.VMRef(b.action.Template), inventory.FolderRef(b.action.Folder)
	req := types.RecommendDatastores{
		StorageSpec: types.StoragePlacementSpec{
			Type: string(types.StoragePlacementSpecPlacementTypeClone), Vm: &vm, Folder: &folder, CloneName: b.action.VM,
			PodSelectionSpec:          types.StorageDrsPodSelectionSpec{StoragePod: &b.pod.Ref},
			CloneSpec:                 &types.VirtualMachineCloneSpec{Location: location, Snapshot: b.spec.Snapshot},
			DisallowPrerequisiteMoves: types.NewBool(true), // the server would not carry them out
		},
	}
	return v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		req.This = *s.Vim.ServiceContent.StorageResourceManager
		res, err := methods.RecommendDatastores(ctx, s.Vim, &req)
		if err == nil && len(res.Returnval.Recommendations) == 0 && res.Returnval.DrsFault == nil {
			// Nothing, and no reason: govmomi's own vcsim answers so unless the datastore cluster is named once more.
			req.StorageSpec.PodSelectionSpec.InitialVmConfig = []types.VmPodConfigForPlacement{{StoragePod: b.pod.Ref}}
			res, err = methods.RecommendDatastores(ctx, s.Vim, &req)
		}
		if err != nil {
			return err
		}
		all := recommendedDatastores(res.Returnval.Recommendations)
		for _, to := range all {
			if b.compatible == nil || b.compatible[to.Value] {
				b.spec.Location.Datastore = &to
				b.fillDisks()
				return nil
			}
		}
		if len(all) > 0 {
			return vcfault.New(vcfault.ReasonStoragePolicyIncompatible, true, "None of the datastores that the datastore cluster %s recommends satisfies the storage policy %q: name others in spec.placement.", b.pod.Path, b.details.Spec.Placement.StoragePolicy)
		}
		return noRecommendation(b.pod.Path, res.Returnval.DrsFault)
	})
}

// fillDisks sets the storage policy on the disks: RelocateSpec.profile is for the home directory alone ([doc]). A disk that is
// listed needs its datastore and move type, too, or a linked clone would become a full one.
func (b *cloneBuilder) fillDisks() {
	at := &b.spec.Location
	if at.Disk = nil; len(at.Profile) == 0 {
		return
	}
	for _, disk := range b.source.disks() {
		to := at.Datastore
		if to == nil {
			to = datastoreOf(disk)
		}
		if to != nil {
			at.Disk = append(at.Disk, types.VirtualMachineRelocateSpecDiskLocator{
				DiskId: disk.Key, Datastore: *to, DiskMoveType: at.DiskMoveType, Profile: at.Profile})
		}
	}
}

// datastoreOf returns the datastore of a disk; nil if vCenter does not say.
func datastoreOf(disk *types.VirtualDisk) *types.ManagedObjectReference {
	if backing, is := disk.Backing.(types.BaseVirtualDeviceFileBackingInfo); is {
		return backing.GetVirtualDeviceFileBackingInfo().Datastore
	}
	return nil
}

// ownDatastores returns the datastores of the source's home and disks.
func ownDatastores(x *places.Storage, from *source) (own []types.ManagedObjectReference) {
	var path object.DatastorePath
	if path.FromString(from.file) {
		if t := x.Called(path.Datastore); t != nil {
			own = append(own, t.Ref)
		}
	}
	for _, disk := range from.disks() {
		if at := datastoreOf(disk); at != nil && !slices.Contains(own, *at) {
			own = append(own, *at)
		}
	}
	return own
}
