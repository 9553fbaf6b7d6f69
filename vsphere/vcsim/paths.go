package vcsim

import (
	"reflect"
	"strings"
	"sync"

	"github.com/vmware/govmomi/vim25/mo"
)

// kinds are the types of objects whose properties the server reads by path.
var kinds = map[string]reflect.Type{}

func init() {
	for _, t := range []reflect.Type{
		reflect.TypeFor[mo.ManagedEntity](), reflect.TypeFor[mo.Folder](), reflect.TypeFor[mo.Datacenter](), reflect.TypeFor[mo.VirtualApp](),
		reflect.TypeFor[mo.VirtualMachine](), reflect.TypeFor[mo.VirtualMachineSnapshot](), reflect.TypeFor[mo.HostSystem](),
		reflect.TypeFor[mo.ComputeResource](), reflect.TypeFor[mo.ClusterComputeResource](), reflect.TypeFor[mo.ResourcePool](),
		reflect.TypeFor[mo.Datastore](), reflect.TypeFor[mo.StoragePod](), reflect.TypeFor[mo.Network](), reflect.TypeFor[mo.OpaqueNetwork](),
		reflect.TypeFor[mo.DistributedVirtualPortgroup](), reflect.TypeFor[mo.DistributedVirtualSwitch](), reflect.TypeFor[mo.Task](),
		reflect.TypeFor[mo.CustomFieldsManager](), reflect.TypeFor[mo.CustomizationSpecManager](),
	} {
		kinds[t.Name()] = t
	}
}

// property is the path of a property of a type.
type property struct{ kind, path string }

// known caches the type of each property by its path; nil if there is none.
var known sync.Map

// PropertyType returns the type that govmomi has for the property at a path; nil if objects of that type don't have such a property. exists is also true
// for a type whose properties aren't known here.
func PropertyType(kind, path string) (of reflect.Type, exists bool) {
	t := kinds[kind]
	if t == nil {
		return nil, true
	}
	if cached, is := known.Load(property{kind, path}); is {
		of, _ = cached.(reflect.Type)
		return of, of != nil
	}
	of = typeAt(t, path)
	known.Store(property{kind, path}, of)
	return of, of != nil
}

// typeAt returns the type at a path of fields, of which the last one can be an entry of a list by its key; nil if there is no such field. Below a
// property that has one of several types, that is any.
func typeAt(t reflect.Type, path string) reflect.Type {
	path, _, keyed := strings.Cut(path, "[")
	for name := range strings.SplitSeq(path, ".") {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Interface {
			return reflect.TypeFor[any]()
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		f, has := fieldOf(t, name)
		if !has {
			return nil
		}
		t = f.Type
	}
	if keyed {
		if t.Kind() != reflect.Slice {
			return nil
		}
		t = t.Elem()
	}
	return t
}
