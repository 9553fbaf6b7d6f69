package secret

import "reflect"

// CleanAll cleans all texts that are reachable from v, in place. v is a pointer, and has no cycles. CleanAll writes only to texts that
// contain a secret.
func (b *Bag) CleanAll(v any) { walk(reflect.ValueOf(v), b.cleaner()) }

func walk(v reflect.Value, clean func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); v.CanSet() && text != "" {
			if cleaned := clean(text); cleaned != text { // write only if a secret was masked
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
		if inside.Kind() != reflect.Pointer && v.CanSet() { // the value in an interface can't be changed in place
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
