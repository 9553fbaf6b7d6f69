package vcsim

import (
	"fmt"
	"reflect"
	"sync"
	"time"
)

// detach replaces everything a variable refers to with copies, with the result of encoding it as XML and decoding it: empty slices are nil,
// an `any` contains a value rather than a pointer, and times are wall clock times in UTC. (Copy libraries do none of this, but two reads
// of one property must return equal values.)
func detach(v reflect.Value) {
	if !refers(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			v.Set(copyOf(v.Elem()).Addr())
		}
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		switch e := v.Elem(); {
		case e.Kind() != reflect.Pointer:
			v.Set(copyOf(e))
		case e.IsNil():
			v.SetZero()
		case v.NumMethod() > 0:
			v.Set(copyOf(e.Elem()).Addr())
		default:
			v.Set(copyOf(e.Elem()))
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.SetZero()
			return
		}
		s := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(s, v)
		v.Set(s)
		if refers(v.Type().Elem()) {
			for i := range v.Len() {
				detach(v.Index(i))
			}
		}
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*time.Time); ok {
			*t = t.Round(0).UTC()
			return
		}
		for _, i := range referring(v.Type()) {
			detach(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("a property contains a %s", v.Type()))
	}
}

// copyOf returns a variable with a detached copy of v.
func copyOf(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	detach(c)
	return c
}

// refers reports whether values of a type share memory after an assignment.
func refers(t reflect.Type) bool {
	switch k := t.Kind(); k {
	case reflect.Struct:
		return len(referring(t)) > 0
	default:
		return k > reflect.Complex128 && k != reflect.String // arrays and reference types
	}
}

// referringFields caches the results of referring.
var referringFields sync.Map

// referring returns the indexes of the struct fields that need a deep copy, times included.
func referring(t reflect.Type) []int {
	if known, ok := referringFields.Load(t); ok {
		return known.([]int)
	}
	var list []int
	for i := range t.NumField() {
		if refers(t.Field(i).Type) {
			list = append(list, i)
		}
	}
	referringFields.Store(t, list)
	return list
}
