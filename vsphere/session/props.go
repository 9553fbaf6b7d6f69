package session

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"
)

// Object is an object in vCenter's answer. It has the properties by path, without those that are unset or that vCenter withheld.
type Object struct {
	Ref types.ManagedObjectReference
	// Found reports whether the answer has the object, Withheld whether vCenter withheld one of its properties, and Denied whether it did so because
	// the account lacks a privilege.
	Found, Withheld, Denied bool
	props                   map[string]types.AnyType
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

// Objects returns the objects in an answer.
func Objects(objects []types.ObjectContent) []Object {
	all := make([]Object, len(objects))
	for i := range objects {
		o := &objects[i]
		all[i] = Object{Ref: o.Obj, Found: true, Withheld: len(o.MissingSet) > 0, Denied: slices.ContainsFunc(o.MissingSet, denied), props: make(map[string]types.AnyType, len(o.PropSet))}
		for _, p := range o.PropSet {
			all[i].props[p.Name] = p.Val
		}
	}
	return all
}

// denied reports whether the account lacks the privilege to read a property.
func denied(x types.MissingProperty) bool {
	_, is := fault.As(&x.Fault, new(types.BaseNoPermission))
	return is
}

// Prop returns the value of a property, or the value to which it points; the zero value if the property is absent or has another type.
func Prop[T any](o Object, path string) T {
	v, _ := LookUp[T](o, path)
	return v
}

// Devices returns a VM's devices, without those of a type that govmomi doesn't know: its decoder returns nil in place of a value of an unknown
// type.
func Devices(o Object) []types.BaseVirtualDevice {
	all := Prop[types.ArrayOfVirtualDevice](o, "config.hardware.device").VirtualDevice
	return slices.DeleteFunc(all, func(device types.BaseVirtualDevice) bool { return device == nil })
}

// LookUp is Prop, and reports whether the property is present and has that type.
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

// Every returns all properties of a type. Entries of an array that were read by their keys are told apart by what they have, because nothing documents
// under which paths vCenter returns them.
func Every[T any](o Object) (all []T) {
	for path := range o.props {
		if v, is := LookUp[T](o, path); is {
			all = append(all, v)
		}
	}
	return all
}

// Only returns the value of the only property of that type, whatever its path: vCenter's path for an entry of extraConfig includes its
// key.
func Only[T any](o Object) T {
	for path := range o.props {
		if v, is := LookUp[T](o, path); is {
			return v
		}
	}
	var none T
	return none
}
