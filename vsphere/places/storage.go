package places

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// Storage are the datastores and datastore clusters of a datacenter.
type Storage struct{ All []Object }

var storageKinds = []string{"Datastore", "StoragePod"}

// ReadStorage reads the datastores and datastore clusters of a datacenter, in one call.
func ReadStorage(ctx context.Context, s *session.Session, d Datacenter) (*Storage, error) {
	all, err := d.tree(ctx, s, "datastoreFolder", nil,
		types.PropertySpec{Type: "Datastore", PathSet: []string{"summary.accessible", "summary.maintenanceMode", "summary.freeSpace", "summary.multipleHostAccess"}},
		types.PropertySpec{Type: "StoragePod", PathSet: []string{"podStorageDrsEntry.storageDrsConfig.podConfig.enabled"}})
	if err != nil {
		return nil, err
	}
	return &Storage{all}, nil
}

// Find returns the datastore or datastore cluster that spec.placement.datastore names. meant is what the name meant before.
func (x *Storage) Find(name string, meant *naming.Meant) (*Object, error) {
	all := Candidates(x.All, storageKinds...)
	i, err := DatastoreField.Pick(meant, "", name, all, naming.Matching(name, all))
	if err != nil {
		return nil, err
	}
	return x.Of(all[i].Ref), nil
}

// Of returns the object with a moRef; nil if unknown.
func (x *Storage) Of(ref types.ManagedObjectReference) *Object {
	if i := slices.IndexFunc(x.All, func(t Object) bool { return t.Ref == ref }); i >= 0 {
		return &x.All[i]
	}
	return nil
}

// Called returns the datastore of that name, which is unique within a datacenter.
func (x *Storage) Called(name string) *Object {
	if i := slices.IndexFunc(x.All, func(t Object) bool { return t.Ref.Type == "Datastore" && t.props["name"] == name }); i >= 0 {
		return &x.All[i]
	}
	return nil
}

// Usable reports whether VMs can be placed on a datastore now: it is accessible, and not in maintenance mode.
func Usable(t *Object) bool {
	return t.Ref.Type == "Datastore" && t.props["summary.accessible"] != false &&
		(t.props["summary.maintenanceMode"] == nil || t.props["summary.maintenanceMode"] == string(types.DatastoreSummaryMaintenanceModeStateNormal))
}

// Best sorts datastores that all hosts of a cluster can share first, and then those with more free space.
func Best(a, b *Object) int {
	shared := func(t *Object) int {
		if yes, _ := t.props["summary.multipleHostAccess"].(bool); yes {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(shared(a), shared(b)), cmp.Compare(b.Free(), a.Free()), strings.Compare(a.Path, b.Path))
}

// Free is the free space of a datastore, in bytes.
func (t *Object) Free() int64 {
	n, _ := t.props["summary.freeSpace"].(int64)
	return n
}

// DRSOff reports whether Storage DRS is off for a datastore cluster.
func (t *Object) DRSOff() bool {
	enabled, known := t.props["podStorageDrsEntry.storageDrsConfig.podConfig.enabled"].(bool)
	return known && !enabled
}
