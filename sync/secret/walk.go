package secret

import "reflect"

// CleanAll cleans all texts that v leads to, in place. v is a pointer, and has no cycles. What is clean is only read.
func (b *Bag) CleanAll(v any) { walk(reflect.ValueOf(v), b.cleaner()) }

func walk(v reflect.Value, clean func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); v.CanSet() && text != "" {
			if cleaned := clean(text); cleaned != text { // else it is only read
				v.SetString(cleaned)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), clean)
		}
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		inside := v.Elem()
		if inside.Kind() != reflect.Pointer && v.CanSet() { // it cannot be changed where it is
			changed := reflect.New(inside.Type()).Elem()
			changed.Set(inside)
			walk(changed, clean)
			if !inside.Comparable() || !changed.Equal(inside) {
				v.Set(changed)
			}
			return
		}
		walk(inside, clean)
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				walk(field, clean)
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			walk(v.Index(i), clean)
		}
	}
}
