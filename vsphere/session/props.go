package session

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"
)

// Object is what vCenter told of one object: its properties by their paths. What is unset, or withheld, is not among them.
type Object struct {
	Ref types.ManagedObjectReference
	// Told reports whether vCenter told of the object at all, and Withheld, whether it kept a property to itself.
	Told, Withheld bool
	props          map[string]types.AnyType
}

// ReadProps reads properties of one object.
func ReadProps(ctx context.Context, s *Session, ref types.ManagedObjectReference, paths ...string) (Object, error) {
	all, err := ReadObjects(ctx, s, types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: ref}},
		PropSet:   []types.PropertySpec{{Type: ref.Type, PathSet: paths}},
	})
	if err != nil || len(all) == 0 {
		return Object{Ref: ref}, err
	}
	return all[0], nil
}

// ReadObjects reads the properties of many objects, as Retrieve does.
func ReadObjects(ctx context.Context, s *Session, specs ...types.PropertyFilterSpec) ([]Object, error) {
	objects, err := Retrieve(ctx, s, specs...)
	if err != nil {
		return nil, err
	}
	return Objects(objects), nil
}

// Objects are what an answer tells of objects.
func Objects(objects []types.ObjectContent) []Object {
	all := make([]Object, len(objects))
	for i := range objects {
		o := &objects[i]
		all[i] = Object{Ref: o.Obj, Told: true, Withheld: len(o.MissingSet) > 0, props: make(map[string]types.AnyType, len(o.PropSet))}
		for _, p := range o.PropSet {
			all[i].props[p.Name] = p.Val
		}
	}
	return all
}

// Prop is the value of a property, or what the pointer in it points to; the zero value if there is none of that type.
func Prop[T any](o Object, path string) T {
	v, _ := LookUp[T](o, path)
	return v
}

// LookUp is Prop, and reports whether there is one.
func LookUp[T any](o Object, path string) (value T, is bool) {
	switch v := o.props[path].(type) {
	case T:
		return v, true
	case *T:
		if v != nil {
			return *v, true
		}
	}
	return value, false
}

// Only is the value of the one property of that type, by whatever path vCenter names it: that of an entry of extraConfig has its key
// in it.
func Only[T any](o Object) T {
	for path := range o.props {
		if v, is := LookUp[T](o, path); is {
			return v
		}
	}
	var none T
	return none
}
