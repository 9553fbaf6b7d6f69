package vsphere

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// storage are the datastores and datastore clusters of a datacenter.
type storage struct{ all []namedObject }

var storageKinds = []string{"Datastore", "StoragePod"}

func readStorage(ctx context.Context, s *session.Session, d datacenter) (*storage, error) {
	all, err := d.tree(ctx, s, "datastoreFolder", nil,
		types.PropertySpec{Type: "Datastore", PathSet: []string{"summary.accessible", "summary.maintenanceMode", "summary.freeSpace", "summary.multipleHostAccess"}},
		types.PropertySpec{Type: "StoragePod", PathSet: []string{"podStorageDrsEntry.storageDrsConfig.podConfig.enabled"}})
	if err != nil {
		return nil, err
	}
	return &storage{all}, nil
}

func (v *VCenter) storageOf(ctx context.Context, s *session.Session, d datacenter) (*storage, error) {
	return v.lookups.storage.get(ctx, s, d.ref.Value, knownFor, func() (*storage, error) { return readStorage(ctx, s, d) })
}

// find returns the datastore or datastore cluster that spec.placement.datastore names.
func (x *storage) find(name string) (*namedObject, error) {
	all := candidatesAmong(x.all, storageKinds...)
	i, err := datastoreField.Choose(name, all)
	if err != nil {
		return nil, err
	}
	return x.of(all[i].Ref), nil
}

// of returns the object with a moRef; nil if unknown.
func (x *storage) of(ref types.ManagedObjectReference) *namedObject {
	if i := slices.IndexFunc(x.all, func(t namedObject) bool { return t.Ref == ref }); i >= 0 {
		return &x.all[i]
	}
	return nil
}

// called returns the datastore of that name, which is unique within a datacenter.
func (x *storage) called(name string) *namedObject {
	if i := slices.IndexFunc(x.all, func(t namedObject) bool { return t.Ref.Type == "Datastore" && t.props["name"] == name }); i >= 0 {
		return &x.all[i]
	}
	return nil
}

// usable reports whether VMs can be put on a datastore now.
func usable(t *namedObject) bool {
	return t.Ref.Type == "Datastore" && t.props["summary.accessible"] != false &&
		(t.props["summary.maintenanceMode"] == nil || t.props["summary.maintenanceMode"] == string(types.DatastoreSummaryMaintenanceModeStateNormal))
}

// best sorts datastores that all hosts of a cluster may share first, and then those with more free space.
func best(a, b *namedObject) int {
	shared := func(t *namedObject) int {
		if yes, _ := t.props["summary.multipleHostAccess"].(bool); yes {
			return 0
		}
		return 1
	}
	free := func(t *namedObject) int64 { n, _ := t.props["summary.freeSpace"].(int64); return n }
	return cmp.Or(cmp.Compare(shared(a), shared(b)), cmp.Compare(free(b), free(a)), strings.Compare(a.Path, b.Path))
}

// fillStorage sets the clone's storage and policy: spec.placement.datastore, the
// datastore of the server's settings (in their datacenter), or the template's own. If the spec names none and the policy
// does not allow the default, it takes one that the policy allows.
func (v *VCenter) fillStorage(ctx context.Context, b *cloneBuilder) error {
	p := b.details.Spec.Placement
	if p.Datastore == "" && b.datacenter.ofSettings {
		b.spec.Location.Datastore = b.settings.Datastore
	}
	if p.Datastore == "" && p.StoragePolicy == "" {
		return nil
	}
	return v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		b.pod, b.spec.Location.Profile = nil, nil
		if p.Datastore != "" {
			found, err := looking(ctx, s, &v.lookups.storage, b.datacenter.ref.Value,
				func() (*storage, error) { return readStorage(ctx, s, b.datacenter) },
				func(x *storage) (*namedObject, error) { return x.find(p.Datastore) })
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
	if enabled, told := b.pod.props["podStorageDrsEntry.storageDrsConfig.podConfig.enabled"].(bool); told && !enabled {
		return vcfault.New(vcfault.ReasonDatastoreNotFound, true, "Storage DRS is off for the datastore cluster %s, so it recommends no datastore: turn it on, or set spec.placement.datastore to one of the datastores in it.", b.pod.Path)
	}
	location := b.spec.Location
	location.DeviceChange, location.Disk = nil, nil
	vm, folder := inventory.VMRef(b.action.Template), inventory.FolderRef(b.action.Folder)
	return v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		res, err := methods.RecommendDatastores(ctx, s.Vim, &types.RecommendDatastores{
			This: *s.Vim.ServiceContent.StorageResourceManager,
			StorageSpec: types.StoragePlacementSpec{
				Type: string(types.StoragePlacementSpecPlacementTypeClone), Vm: &vm, Folder: &folder, CloneName: b.action.VM,
				PodSelectionSpec:          types.StorageDrsPodSelectionSpec{StoragePod: &b.pod.Ref},
				CloneSpec:                 &types.VirtualMachineCloneSpec{Location: location, Snapshot: b.spec.Snapshot},
				DisallowPrerequisiteMoves: types.NewBool(true), // the server would not carry them out
			},
		})
		if err != nil {
			return err
		}
		all := recommended(res.Returnval.Recommendations)
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
		return unrecommended(b.pod, res.Returnval.DrsFault)
	})
}

// recommended returns the datastores that Storage DRS recommends, the best first.
func recommended(all []types.ClusterRecommendation) (to []types.ManagedObjectReference) {
	for _, r := range all {
		for _, action := range r.Action {
			if place, is := action.(*types.StoragePlacementAction); is && place.Destination.Value != "" {
				to = append(to, place.Destination)
				break
			}
		}
	}
	return to
}

// unrecommended says why there is no recommendation, in vCenter's words. Space may come back.
func unrecommended(pod *namedObject, drs *types.ClusterDrsFaults) error {
	var first error
	if drs != nil {
		for _, by := range drs.FaultsByVm {
			if by == nil { // of an unknown type
				continue
			}
			for _, f := range by.GetClusterDrsFaultsFaultsByVm().Fault {
				if first == nil && f.Fault != nil {
					first = &drsError{f}
				}
			}
		}
	}
	if first == nil {
		return vcfault.New(vcfault.ReasonDatastoreFull, true, "Storage DRS recommends no datastore of the datastore cluster %s: check that it has datastores that are not in maintenance mode, have free space, and are mounted on the hosts.", pod.Path)
	}
	why := vcfault.Classify("", first)
	reason := vcfault.ReasonDatastoreNotFound
	if why.Reason == vcfault.ReasonDatastoreFull {
		reason = why.Reason
	}
	e := vcfault.New(reason, true, "Storage DRS recommends no datastore of the datastore cluster %s. %s", pod.Path, why.Message)
	e.Err = first
	return e
}

// drsError is a fault of Storage DRS as an error.
type drsError struct{ types.LocalizedMethodFault }

func (e *drsError) Error() string                { return e.LocalizedMessage }
func (e *drsError) Fault() types.BaseMethodFault { return e.LocalizedMethodFault.Fault }

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
func (x *storage) ownDatastores(from *source) (own []types.ManagedObjectReference) {
	var path object.DatastorePath
	if path.FromString(from.file) {
		if t := x.called(path.Datastore); t != nil {
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
