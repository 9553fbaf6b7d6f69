package session

import (
	"context"
	"reflect"
	"slices"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"
)

// Property is a row of a table of properties: what a read asks vCenter for, and where its value goes. An Object gives its values to nothing else,
// so no property can be asked for and not be used, or be used and not be asked for.
type Property struct {
	Path string
	// Type is that of the values that the row takes. A value can also be a pointer to one.
	Type reflect.Type
	take func(types.AnyType)
}

// Properties are the properties that a read asks for.
type Properties []Property

// To is the property whose value goes to field. If vCenter leaves it unset, withholds it or answers with another type, field stays as it is.
func To[T any](path string, field *T) Property {
	return Taking(path, func(v T) { *field = v })
}

// Taking is the property whose value take gets, if there is one of that type.
func Taking[T any](path string, take func(T)) Property {
	return Property{path, reflect.TypeFor[T](), func(v types.AnyType) {
		switch v := v.(type) {
		case T:
			take(v)
		case *T:
			if v != nil {
				take(*v)
			}
		}
	}}
}

// Refs is the property whose references go to field.
func Refs(path string, field *[]types.ManagedObjectReference) Property {
	return Taking(path, func(v types.ArrayOfManagedObjectReference) { *field = v.ManagedObjectReference })
}

// Devices is the property with a VM's devices. Those of a type that govmomi doesn't know don't go to field: govmomi's decoder returns nil in place of
// a value of an unknown type.
func Devices(field *[]types.BaseVirtualDevice) Property {
	return Taking("config.hardware.device", func(v types.ArrayOfVirtualDevice) {
		*field = slices.DeleteFunc(slices.Clone(v.VirtualDevice), func(device types.BaseVirtualDevice) bool { return device == nil })
	})
}

// Option is the text at a key of a VM's extraConfig.
func Option(key string, field *string) Property {
	return Taking(OptionPath(key), func(v types.OptionValue) { *field, _ = v.Value.(string) })
}

// OptionPath is the path of an entry of a VM's extraConfig. With the key in the path, vCenter returns this entry instead of all.
func OptionPath(key string) string { return `config.extraConfig["` + key + `"]` }

// Paths are the paths of the properties, as a PropertySpec has them.
func (p Properties) Paths() []string {
	paths := make([]string, len(p))
	for i := range p {
		paths[i] = p[i].Path
	}
	return paths
}

// Object is an object in vCenter's answer. It lacks the properties that are unset or that vCenter withheld.
type Object struct {
	Ref types.ManagedObjectReference
	// Found reports whether the answer has the object, Withheld whether vCenter withheld one of its properties, and Denied whether it did so because
	// the account lacks a privilege.
	Found, Withheld, Denied bool
	props                   []types.DynamicProperty
}

// Into gives the object's properties to the rows that asked for them. An entry of extraConfig has its key, by which it is known, because nothing
// documents under which path vCenter returns it.
func (o Object) Into(all Properties) {
	for i := range all {
		for j := range o.props {
			path := o.props[j].Name
			if option, is := o.props[j].Val.(types.OptionValue); is {
				path = OptionPath(option.Key)
			}
			if path == all[i].Path {
				all[i].take(o.props[j].Val)
			}
		}
	}
}

// ReadProps reads properties of one object.
func ReadProps(ctx context.Context, s *Session, ref types.ManagedObjectReference, all ...Property) (Object, error) {
	objects, err := ReadObjects(ctx, s, types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: ref}},
		PropSet:   []types.PropertySpec{{Type: ref.Type, PathSet: Properties(all).Paths()}},
	})
	if err != nil || len(objects) == 0 {
		return Object{Ref: ref}, err
	}
	objects[0].Into(all)
	return objects[0], nil
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
		all[i] = ObjectOf(&objects[i])
	}
	return all
}

// ObjectOf returns an object in an answer.
func ObjectOf(o *types.ObjectContent) Object {
	return Object{Ref: o.Obj, Found: true, Withheld: len(o.MissingSet) > 0, Denied: slices.ContainsFunc(o.MissingSet, denied), props: o.PropSet}
}

// denied reports whether the account lacks the privilege to read a property.
func denied(x types.MissingProperty) bool {
	_, is := fault.As(&x.Fault, new(types.BaseNoPermission))
	return is
}
