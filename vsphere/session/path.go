package session

import (
	"cmp"
	"context"

	"github.com/vmware/govmomi/vim25/types"
)

// PathOf reads the inventory path of an object; empty if the account can't see the object or one of its parents.
func PathOf(ctx context.Context, s *Session, ref types.ManagedObjectReference) (string, error) {
	const up = "up"
	objects, err := ReadObjects(ctx, s, types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: ref, SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{
			SelectionSpec: types.SelectionSpec{Name: up}, Type: "ManagedEntity", Path: "parent", SelectSet: []types.BaseSelectionSpec{&types.SelectionSpec{Name: up}}}}}},
		PropSet: []types.PropertySpec{{Type: "ManagedEntity", PathSet: []string{"name", "parent"}}},
	})
	if err != nil {
		return "", err
	}
	by := map[types.ManagedObjectReference]Object{}
	for _, o := range objects {
		by[o.Ref] = o
	}
	path := ""
	for at, rounds := ref, 0; rounds <= len(objects); rounds++ { // with more rounds, the parents form a circle
		name := Prop[string](by[at], "name")
		above, is := LookUp[types.ManagedObjectReference](by[at], "parent")
		switch {
		case name == "":
			return "", nil
		case !is:
			return cmp.Or(path, "the root"), nil
		}
		path, at = "/"+name+path, above
	}
	return "", nil
}
