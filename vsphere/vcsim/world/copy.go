package world

import (
	"fmt"
	"reflect"
	"sync"
	"time"
)

// Detach makes what a variable refers to its own, as if it had been encoded as XML and decoded again: empty slices are nil,
// what is in an `any` is a value rather than a pointer, and times are of the wall clock, in UTC. (Libraries that copy
// structures know none of these, and two reads of one property must be equal.)
func Detach(v reflect.Value) {
	if !refers(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			v.Set(CopyOf(v.Elem()).Addr())
		}
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		switch e := v.Elem(); {
		case e.Kind() != reflect.Pointer:
			v.Set(CopyOf(e))
		case e.IsNil():
			v.SetZero()
		case v.NumMethod() > 0:
			v.Set(CopyOf(e.Elem()).Addr())
		default:
			v.Set(CopyOf(e.Elem()))
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
				Detach(v.Index(i))
			}
		}
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*time.Time); ok {
			*t = t.Round(0).UTC()
			return
		}
		for _, i := range referring(v.Type()) {
			Detach(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("a property holds a %s", v.Type()))
	}
}

// CopyOf is a variable with a copy of v.
func CopyOf(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	Detach(c)
	return c
}

// refers reports whether an assignment is not yet a copy.
func refers(t reflect.Type) bool {
	switch k := t.Kind(); k {
	case reflect.Struct:
		return len(referring(t)) > 0
	default:
		return k > reflect.Complex128 && k != reflect.String // arrays and what refers by nature
	}
}

// referringFields remembers the answers of referring.
var referringFields sync.Map

// referring are the fields of a struct for which an assignment is not yet a copy. A time counts as one.
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
