package world

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// MissingArgument returns ManagedObjectNotFound if a request refers to a missing object, as vCenter does. The simulator panics on many.
func (w *World) MissingArgument(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	for _, ref := range References(reflect.ValueOf(m.Body), nil) {
		if ref.Value != "" && w.Objects.Get(ref) == nil && ctx.Session.Get(ref) == nil {
			return &types.ManagedObjectNotFound{Obj: ref}
		}
	}
	return nil
}

// References collects all references in a request, at any depth.
func References(value reflect.Value, refs []types.ManagedObjectReference) []types.ManagedObjectReference {
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			refs = References(value.Elem(), refs)
		}
	case reflect.Slice:
		for i := range value.Len() {
			refs = References(value.Index(i), refs)
		}
	case reflect.Struct:
		if ref, ok := value.Interface().(types.ManagedObjectReference); ok {
			return append(refs, ref)
		}
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				refs = References(value.Field(i), refs)
			}
		}
	}
	return refs
}
