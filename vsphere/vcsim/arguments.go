package vcsim

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// missingArgument answers ManagedObjectNotFound for a reference to what is not there, as vCenter does
// for any. The simulator panics on many.
func (w *world) missingArgument(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	for _, ref := range references(reflect.ValueOf(m.Body), nil) {
		if ref.Value != "" && w.objects.Get(ref) == nil && ctx.Session.Get(ref) == nil {
			return &types.ManagedObjectNotFound{Obj: ref}
		}
	}
	return nil
}

// references collects all references in a request, however deep.
func references(value reflect.Value, refs []types.ManagedObjectReference) []types.ManagedObjectReference {
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			refs = references(value.Elem(), refs)
		}
	case reflect.Slice:
		for i := range value.Len() {
			refs = references(value.Index(i), refs)
		}
	case reflect.Struct:
		if ref, ok := value.Interface().(types.ManagedObjectReference); ok {
			return append(refs, ref)
		}
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				refs = references(value.Field(i), refs)
			}
		}
	}
	return refs
}
