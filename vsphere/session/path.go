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
	type entity struct {
		name   string
		parent *types.ManagedObjectReference
	}
	by := map[types.ManagedObjectReference]entity{}
	for _, o := range objects {
		var x entity
		o.Into(Properties{To("name", &x.name), Taking("parent", func(v types.ManagedObjectReference) { x.parent = &v })})
		by[o.Ref] = x
	}
	path := ""
	for at, rounds := ref, 0; rounds <= len(objects); rounds++ { // with more rounds, the parents form a circle
		x := by[at]
		switch {
		case x.name == "":
			return "", nil
		case x.parent == nil:
			return cmp.Or(path, "the root"), nil
		}
		path, at = "/"+x.name+path, *x.parent
	}
	return "", nil
}
