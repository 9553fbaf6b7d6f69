// Package places reads the objects of a datacenter that VMs use, its clusters, hosts, resource pools, datastores and networks, and finds
// those that a spec names.
package places

import (
	"context"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Object is an object of a datacenter that a spec can name.
type Object struct {
	naming.Candidate
	parent types.ManagedObjectReference
	props  map[string]types.AnyType
}

// Datacenter is the datacenter in which a clone's names are looked for.
type Datacenter struct {
	Ref  types.ManagedObjectReference
	Path string // "/DC0"
	// OfSettings reports whether it is the datacenter of the server's settings.
	OfSettings bool
}

// tree reads all objects below one of a datacenter's folders, in one call. It descends from folders (datastore clusters are folders) to their
// children, and from other objects by the steps in below.
func (d Datacenter) tree(ctx context.Context, s *session.Session, folder string, below []types.TraversalSpec, props ...types.PropertySpec) ([]Object, error) {
	again := []types.BaseSelectionSpec{&types.SelectionSpec{Name: "children"}}
	for _, t := range below {
		again = append(again, &types.SelectionSpec{Name: t.Name})
	}
	selections := []types.BaseSelectionSpec{&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "folder"}, Type: "Datacenter", Path: folder,
		SelectSet: again}, &types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "children"}, Type: "Folder", Path: "childEntity", SelectSet: again}}
	for _, t := range below {
		t.SelectSet = again
		selections = append(selections, &t)
	}
	for i := range props {
		props[i].PathSet = append([]string{"name", "parent"}, props[i].PathSet...)
	}
	objects, err := session.Retrieve(ctx, s, types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: d.Ref, Skip: types.NewBool(true), SelectSet: selections}},
		PropSet:   append([]types.PropertySpec{{Type: "Folder", PathSet: []string{"name", "parent"}}}, props...),
	})
	if err != nil {
		return nil, err
	}
	return d.namedObjects(objects), nil
}

// namedObjects returns objects with their inventory paths, sorted by path, without those whose name the account can't see.
func (d Datacenter) namedObjects(objects []types.ObjectContent) []Object {
	known := map[types.ManagedObjectReference]*Object{}
	for _, o := range objects {
		t := known[o.Obj]
		if t == nil {
			t = &Object{Candidate: naming.Candidate{Ref: o.Obj}, props: map[string]types.AnyType{}}
			known[o.Obj] = t
		}
		for _, p := range o.PropSet {
			t.props[p.Name] = p.Val
		}
		t.parent, _ = t.props["parent"].(types.ManagedObjectReference)
	}
	var all []Object
	for _, t := range known {
		if t.Path = d.pathOf(known, t); t.Path != "" {
			all = append(all, *t)
		}
	}
	slices.SortFunc(all, func(a, b Object) int {
		return strings.Compare(a.Path+"\x00"+a.Ref.Value, b.Path+"\x00"+b.Ref.Value)
	})
	return all
}

// pathOf returns an object's inventory path; empty if it does not lead to the datacenter.
func (d Datacenter) pathOf(known map[types.ManagedObjectReference]*Object, t *Object) string {
	path := ""
	for range 100 { // no inventory is that deep
		name, _ := t.props["name"].(string)
		if name == "" {
			return ""
		}
		path = "/" + name + path
		if t.parent == d.Ref {
			return d.Path + path
		}
		if t = known[t.parent]; t == nil {
			return ""
		}
	}
	return ""
}

// Candidates returns the objects of these types.
func Candidates(all []Object, kinds ...string) (some []naming.Candidate) {
	for _, t := range all {
		if slices.Contains(kinds, t.Ref.Type) {
			some = append(some, t.Candidate)
		}
	}
	return some
}

// The fields of a spec that name a clone's pool, datastores and networks.
var (
	PoolField      = naming.Setting{Word: "cluster, host or resource pool", Flag: "spec.placement.pool", Missing: vcfault.ReasonPoolNotFound, Ambiguous: vcfault.ReasonPoolAmbiguous}
	ZonesField     = naming.Setting{Word: "cluster, host or resource pool", Flag: "spec.placement.zones", Missing: vcfault.ReasonPoolNotFound, Ambiguous: vcfault.ReasonPoolAmbiguous}
	DatastoreField = naming.Setting{Word: "datastore or datastore cluster", Flag: "spec.placement.datastore", Missing: vcfault.ReasonDatastoreNotFound, Ambiguous: vcfault.ReasonDatastoreAmbiguous}
	DiskField      = naming.Setting{Word: "datastore", Flag: "the datastore of spec.disks", Missing: vcfault.ReasonDatastoreNotFound, Ambiguous: vcfault.ReasonDatastoreAmbiguous}
	NetworkField   = naming.Setting{Word: "network", Flag: "spec.networks", Missing: vcfault.ReasonNetworkNotFound, Ambiguous: vcfault.ReasonNetworkAmbiguous}
)

// Name is the object's name, as vCenter has it.
func (t *Object) Name() string {
	name, _ := t.props["name"].(string)
	return name
}
