package vsphere

import (
	"context"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// namedObject is an object of a datacenter that a spec may name.
type namedObject struct {
	naming.Candidate
	parent types.ManagedObjectReference
	props  map[string]types.AnyType
}

// datacenter is the datacenter in which a clone's names are looked for.
type datacenter struct {
	ref  types.ManagedObjectReference
	path string // "/DC0"
	// ofSettings reports whether it is the datacenter of the server's settings.
	ofSettings bool
}

// tree reads all objects below one of a datacenter's folders, in one call. below are the steps from an object to those
// in it, besides those from folders (datastore clusters are folders) to their children.
func (d datacenter) tree(ctx context.Context, s *session.Session, folder string, below []types.TraversalSpec, props ...types.PropertySpec) ([]namedObject, error) {
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
		ObjectSet: []types.ObjectSpec{{Obj: d.ref, Skip: types.NewBool(true), SelectSet: selections}},
		PropSet:   append([]types.PropertySpec{{Type: "Folder", PathSet: []string{"name", "parent"}}}, props...),
	})
	if err != nil {
		return nil, err
	}
	return d.namedObjects(objects), nil
}

// namedObjects returns objects with their inventory paths, sorted by path, without those whose name vCenter does not show.
func (d datacenter) namedObjects(objects []types.ObjectContent) []namedObject {
	known := map[types.ManagedObjectReference]*namedObject{}
	for _, o := range objects {
		t := known[o.Obj]
		if t == nil {
			t = &namedObject{Candidate: naming.Candidate{Ref: o.Obj}, props: map[string]types.AnyType{}}
			known[o.Obj] = t
		}
		for _, p := range o.PropSet {
			t.props[p.Name] = p.Val
		}
		t.parent, _ = t.props["parent"].(types.ManagedObjectReference)
	}
	var all []namedObject
	for _, t := range known {
		if t.Path = d.pathOf(known, t); t.Path != "" {
			all = append(all, *t)
		}
	}
	slices.SortFunc(all, func(a, b namedObject) int {
		return strings.Compare(a.Path+"\x00"+a.Ref.Value, b.Path+"\x00"+b.Ref.Value)
	})
	return all
}

// pathOf returns an object's inventory path; empty if it does not lead to the datacenter.
func (d datacenter) pathOf(known map[types.ManagedObjectReference]*namedObject, t *namedObject) string {
	path := ""
	for range 100 { // no inventory is that deep
		name, _ := t.props["name"].(string)
		if name == "" {
			return ""
		}
		path = "/" + name + path
		if t.parent == d.ref {
			return d.path + path
		}
		if t = known[t.parent]; t == nil {
			return ""
		}
	}
	return ""
}

// candidatesAmong returns the objects of these types.
func candidatesAmong(all []namedObject, kinds ...string) (some []naming.Candidate) {
	for _, t := range all {
		if slices.Contains(kinds, t.Ref.Type) {
			some = append(some, t.Candidate)
		}
	}
	return some
}

// The fields of a spec that name where a clone goes and what it is connected to.
var (
	poolField      = naming.Setting{Word: "cluster, host or resource pool", Flag: "spec.placement.pool", Missing: vcfault.ReasonPoolNotFound, Ambiguous: vcfault.ReasonPoolAmbiguous}
	zonesField     = naming.Setting{Word: "cluster, host or resource pool", Flag: "spec.placement.zones", Missing: vcfault.ReasonPoolNotFound, Ambiguous: vcfault.ReasonPoolAmbiguous}
	datastoreField = naming.Setting{Word: "datastore or datastore cluster", Flag: "spec.placement.datastore", Missing: vcfault.ReasonDatastoreNotFound, Ambiguous: vcfault.ReasonDatastoreAmbiguous}
	networkField   = naming.Setting{Word: "network", Flag: "spec.networks", Missing: vcfault.ReasonNetworkNotFound, Ambiguous: vcfault.ReasonNetworkAmbiguous}
)
