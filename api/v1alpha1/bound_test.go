package v1alpha1

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// lists calls f with each list and map of a value, at any depth, and its path. It fills pointers, and gives lists an entry while it
// looks inside them.
func lists(v reflect.Value, path string, f func(path string, list reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			if a, is := v.Interface().(*Addresses); is {
				a.PrefixLength = 24
			}
			defer v.SetZero()
		}
		lists(v.Elem(), path, f)
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			lists(v.Field(i), path+"."+name, f)
		}
	case reflect.Map:
		f(path, v)
	case reflect.Slice:
		f(path, v)
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		lists(v.Index(0), path+"[0]", f)
		v.SetZero()
	}
}

// fill sets a list or map to n entries.
func fill(v reflect.Value, n int) {
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := range n {
		v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("k%d", i)), reflect.Zero(v.Type().Elem()))
	}
}

// The cost of an invalid spec must not depend on the length of its lists.
func TestEveryListOfASpecIsCutToItsBound(t *testing.T) {
	g := &VmGroup{}
	g.Name, g.Spec.CPU, g.Spec.Memory, g.Spec.Template = "web", 1, 1, "ubuntu"
	seen := 0
	lists(reflect.ValueOf(&g.Spec).Elem(), "spec", func(path string, list reflect.Value) {
		seen++
		fill(list, 60_000)
		g.Bound()
		if list.Len() > MaxListed+1 {
			t.Errorf("%s: Bound leaves %d entries; want at most %d", path, list.Len(), MaxListed+1)
		}
		errs := g.Validate().ToAggregate()
		if errs == nil || !strings.Contains(errs.Error(), strings.ReplaceAll(path, "[0]", "")) && !strings.Contains(errs.Error(), path) {
			t.Errorf("%s: Validate accepts the rest: %v", path, errs)
		}
		cost := testing.AllocsPerRun(5, func() { g.Validate() })
		if cost > 10_000 {
			t.Errorf("%s: its validation allocates %.0f times; want at most 10000", path, cost)
		}
		list.SetZero()
	})
	if seen < 13 {
		t.Errorf("found only %d lists", seen)
	}
}

func TestBoundLeavesValidSpecsUnchanged(t *testing.T) {
	g := &VmGroup{}
	lists(reflect.ValueOf(&g.Spec).Elem(), "spec", func(path string, list reflect.Value) {
		fill(list, 8)
		if g.Bound(); list.Len() != 8 {
			t.Errorf("%s: %d of 8 entries are left; want 8", path, list.Len())
		}
		list.SetZero()
	})
}
