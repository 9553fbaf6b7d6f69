package sessiontest

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Table is a table of properties that are read into a T.
type Table[T any] struct {
	// Kind is the type of the objects that have the properties.
	Kind string
	Of   func(*T) session.Properties
	// Samples are values by path, where an invented value says nothing to the row.
	Samples map[string]any
	// Otherwise are the fields of T that no property gives.
	Otherwise []string
}

// Check fails the test unless each row names a property of the objects, takes values of its type, and sets a field of T, and each field of T but those in
// Otherwise is set by a row. So a property that isn't read any more, or is misspelled, doesn't go unnoticed.
func (x Table[T]) Check(t *testing.T) {
	t.Helper()
	left := fieldsOf(reflect.TypeFor[T](), "")
	for _, row := range x.Of(new(T)) {
		if of, exists := vcsim.PropertyType(x.Kind, row.Path); !exists {
			t.Errorf("%s isn't a property of a %s", row.Path, x.Kind)
		} else if !carries(of, row.Type) {
			t.Errorf("%s is a %s, and its row takes a %s", row.Path, of, row.Type)
		}
		sample, has := x.Samples[row.Path]
		if _, key, is := strings.Cut(row.Path, `["`); is && !has {
			sample = types.OptionValue{Key: strings.TrimSuffix(key, `"]`), Value: "x"}
		} else if !has {
			sample = invented(row.Type, 3).Interface()
		}
		var to T
		session.ObjectOf(&types.ObjectContent{PropSet: []types.DynamicProperty{{Name: row.Path, Val: sample}}}).Into(x.Of(&to))
		set := setIn(reflect.ValueOf(&to).Elem(), "")
		if len(set) == 0 {
			t.Errorf("%s is read, and goes nowhere", row.Path)
		}
		for _, field := range set {
			delete(left, field)
			if slices.Contains(x.Otherwise, field) {
				t.Errorf("%s gives %s: remove the field from Otherwise", row.Path, field)
			}
		}
	}
	for _, field := range x.Otherwise {
		if !left[field] {
			t.Errorf("%s isn't a field that no property gives: remove it from Otherwise", field)
		}
		delete(left, field)
	}
	for _, field := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("no property gives %s: add a row for it, or the field to Otherwise", field)
	}
}

// carries reports whether a property of that type has values of type value.
func carries(of, value reflect.Type) bool {
	if of == nil {
		return true
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of.Kind() {
	case reflect.Interface:
		return reflect.PointerTo(value).Implements(of)
	case reflect.Slice: // vCenter's arrays have a type of their own
		return value.Name() == "ArrayOf"+strings.TrimPrefix(of.Elem().Name(), "Base")
	}
	return of == value
}

// fieldsOf are the names of a struct's fields, with those of embedded structs.
func fieldsOf(t reflect.Type, in string) map[string]bool {
	all := map[string]bool{}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			maps.Copy(all, fieldsOf(f.Type, in+f.Name+"."))
		} else {
			all[in+f.Name] = true
		}
	}
	return all
}

// setIn are the names of the fields that aren't zero.
func setIn(x reflect.Value, in string) (set []string) {
	for i := range x.NumField() {
		if f := x.Type().Field(i); f.Anonymous {
			set = append(set, setIn(x.Field(i), in+f.Name+".")...)
		} else if !x.Field(i).IsZero() {
			set = append(set, in+f.Name)
		}
	}
	return set
}

// invented returns a value of which no field is zero, to a depth.
func invented(t reflect.Type, depth int) reflect.Value {
	x := reflect.New(t).Elem()
	switch {
	case depth == 0:
	case t == reflect.TypeFor[time.Time]():
		x.Set(reflect.ValueOf(time.Unix(1, 0)))
	case t.Kind() == reflect.String:
		x.SetString("x")
	case t.Kind() == reflect.Bool:
		x.SetBool(true)
	case x.CanInt():
		x.SetInt(7)
	case t.Kind() == reflect.Pointer:
		x.Set(reflect.New(t.Elem()))
		x.Elem().Set(invented(t.Elem(), depth-1))
	case t.Kind() == reflect.Slice:
		x.Set(reflect.Append(x, invented(t.Elem(), depth-1)))
	case t.Kind() == reflect.Struct:
		for i := range x.NumField() {
			if x.Field(i).CanSet() {
				x.Field(i).Set(invented(t.Field(i).Type, depth-1))
			}
		}
	}
	return x
}
