package vcsim

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// reading is one read of named properties. It returns the same as the simulator's PropertyCollector (retrieveResult in its property_collector.go;
// properties_test.go compares them) but copies the values by reflection: the simulator encodes each object as XML and decodes it, which took a
// fifth of the processor time of a whole test.
type reading struct {
	ctx      *simulator.Context
	objects  *simulator.Registry
	specs    []types.PropertyFilterSpec
	read     map[types.ManagedObjectReference]bool
	named    map[string]*types.TraversalSpec
	contents []types.ObjectContent
}

// retrieve answers a read of a logged-in client in one page. The caller holds the world lock.
func retrieve(ctx *simulator.Context, objects *simulator.Registry, specs []types.PropertyFilterSpec) *methods.RetrievePropertiesExBody {
	r := &reading{ctx: ctx, objects: objects, specs: specs,
		read: make(map[types.ManagedObjectReference]bool), named: make(map[string]*types.TraversalSpec)}
	var found []types.ManagedObjectReference
	for _, spec := range specs {
		for _, o := range spec.ObjectSet {
			refs, fault := r.start(o, is(spec.ReportMissingObjectsInResults))
			if fault != nil {
				text := ""
				if _, gone := fault.(*types.ManagedObjectNotFound); gone {
					text = "The object has already been deleted or has not been completely created"
				}
				return &methods.RetrievePropertiesExBody{Fault_: simulator.Fault(text, fault)}
			}
			found = append(found, refs...)
		}
	}
	for _, ref := range found {
		if obj, ok := r.object(ref); ok {
			objects.WithLock(ctx, ref, func() { r.collect(ref, obj) })
		}
	}
	return &methods.RetrievePropertiesExBody{Res: &types.RetrievePropertiesExResponse{
		Returnval: &types.RetrieveResult{Objects: r.contents},
	}}
}

// start reads an object that the request names, and returns the objects that its traversals reach.
func (r *reading) start(o types.ObjectSpec, mayMiss bool) (found []types.ManagedObjectReference, _ types.BaseMethodFault) {
	obj, ok := r.object(o.Obj)
	if !ok {
		if mayMiss {
			return nil, nil
		}
		return nil, &types.ManagedObjectNotFound{Obj: o.Obj}
	}
	defer r.objects.AcquireLock(r.ctx, o.Obj)()
	if o.SelectSet == nil || !is(o.Skip) {
		r.collect(o.Obj, obj)
	}
	return r.traverse(obj, o.SelectSet, nil)
}

// object returns the struct of package mo with an object's properties.
func (r *reading) object(ref types.ManagedObjectReference) (reflect.Value, bool) {
	obj := r.ctx.Session.Get(ref)
	if obj == nil {
		return reflect.Value{}, false
	}
	return propertiesOf(obj), true
}

// propertiesOf returns the struct of package mo with an object's properties.
func propertiesOf(obj mo.Reference) reflect.Value {
	if o, ok := obj.(interface{ Get() mo.Reference }); ok { // the simulator converts its own field types
		obj = o.Get()
	}
	value := reflect.ValueOf(obj).Elem()
	for path.Base(value.Type().PkgPath()) != "mo" { // the simulator's types embed those of mo first
		if value = value.Field(0); value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
	}
	return value
}

// traverse finds the objects that the traversals reach from obj.
func (r *reading) traverse(obj reflect.Value, set []types.BaseSelectionSpec, found []types.ManagedObjectReference) ([]types.ManagedObjectReference, types.BaseMethodFault) {
	for _, s := range set {
		if t, ok := s.(*types.TraversalSpec); ok && t.Name != "" {
			r.named[t.Name] = t
		}
	}
	for _, s := range set {
		t, ok := s.(*types.TraversalSpec)
		if !ok {
			if t = r.named[s.GetSelectionSpec().Name]; t == nil {
				return nil, &types.InvalidArgument{InvalidProperty: "undefined TraversalSpec name"}
			}
		}
		value, _ := valueAt(obj, t.Path)
		for _, ref := range referencesIn(value) {
			if !is(t.Skip) {
				found = append(found, ref)
			}
			if next, ok := r.object(ref); ok {
				var fault types.BaseMethodFault
				if found, fault = r.traverse(next, t.SelectSet, found); fault != nil {
					return nil, fault
				}
			}
		}
	}
	return found, nil
}

func referencesIn(value reflect.Value) []types.ManagedObjectReference {
	if !value.IsValid() {
		return nil
	}
	switch refs := value.Interface().(type) {
	case types.ManagedObjectReference:
		return []types.ManagedObjectReference{refs}
	case []types.ManagedObjectReference:
		return refs
	}
	return nil
}

// collect reads an object, unless it was read before or the request has no properties of its type. The caller holds its lock.
func (r *reading) collect(ref types.ManagedObjectReference, obj reflect.Value) {
	if r.read[ref] {
		return
	}
	r.read[ref] = true
	content, match := types.ObjectContent{Obj: ref}, false
	for _, spec := range r.specs {
		for _, p := range spec.PropSet {
			if p.Type != ref.Type && !isA(obj.Type(), p.Type) {
				continue
			}
			match = true
			collectPaths(obj, p.PathSet, &content)
		}
	}
	if match {
		r.contents = append(r.contents, content)
	}
}

// isA reports whether a type of package mo is the named one or embeds it, as all embed ManagedEntity.
func isA(t reflect.Type, name string) bool {
	if t.Name() == name {
		return true
	}
	f, ok := fieldOf(t, name)
	return ok && f.Anonymous
}

// collectPaths reads the properties at paths, each one once.
func collectPaths(obj reflect.Value, paths []string, content *types.ObjectContent) {
	for i, p := range paths {
		if slices.Contains(paths[:i], p) || slices.ContainsFunc(content.PropSet, func(d types.DynamicProperty) bool { return d.Name == p }) {
			continue
		}
		value, known := valueOf(obj, p)
		if known {
			addProperty(content, p, value)
			continue
		}
		content.MissingSet = append(content.MissingSet, types.MissingProperty{Path: p,
			Fault: types.LocalizedMethodFault{Fault: &types.InvalidProperty{Name: p}}})
	}
}

// addProperty adds a copy of a valid value.
func addProperty(content *types.ObjectContent, name string, value reflect.Value) {
	if value.IsValid() {
		var property any
		copied := reflect.ValueOf(&property).Elem()
		copied.Set(value)
		detach(copied)
		if property != nil {
			content.PropSet = append(content.PropSet, types.DynamicProperty{Name: name, Val: property})
		}
	}
}

// valueOf returns the value of a property path, which may contain a key: config.extraConfig["k"].value. The value is invalid if the
// property is unset; known is false if there is no such property.
func valueOf(obj reflect.Value, name string) (value reflect.Value, known bool) {
	if !strings.Contains(name, "[") {
		value, known = valueAt(obj, name)
		return array(value), known
	}
	var field mo.Field
	if !field.FromString(name) {
		return reflect.Value{}, false
	}
	if value, known = valueAt(obj, field.Path); !known || !value.IsValid() {
		return value, known
	}
	if value.Kind() != reflect.Slice {
		return reflect.Value{}, false
	}
	value, known = entry(value, field.Key)
	if !known || !value.IsValid() || field.Item == "" {
		return value, known
	}
	value, known = valueAt(value, field.Item)
	return array(value), known
}

// valueAt returns the value at a path of field names.
func valueAt(obj reflect.Value, names string) (value reflect.Value, known bool) {
	for {
		name, rest, more := strings.Cut(names, ".")
		names = rest
		for obj.Kind() == reflect.Interface || obj.Kind() == reflect.Pointer {
			if obj.IsNil() {
				return reflect.Value{}, true
			}
			obj = obj.Elem()
		}
		if obj.Kind() != reflect.Struct {
			return reflect.Value{}, false
		}
		f, ok := fieldOf(obj.Type(), name)
		if !ok {
			return reflect.Value{}, false
		}
		obj = obj.FieldByIndex(f.Index)
		if isUnset(obj) {
			return reflect.Value{}, true
		}
		if !more {
			if obj.Kind() == reflect.Pointer {
				obj = obj.Elem()
			}
			return obj, true
		}
	}
}

// isUnset reports whether a field counts as missing. Empty arrays do not.
func isUnset(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Pointer:
		return value.IsNil()
	case reflect.String:
		return value.Len() == 0
	}
	return false
}

// entry returns the entry of an array with a key.
func entry(array reflect.Value, key any) (value reflect.Value, known bool) {
	for i := range array.Len() {
		item := array.Index(i)
		if item.Kind() == reflect.Interface {
			item = item.Elem()
		}
		if item.Kind() == reflect.Pointer {
			item = item.Elem()
		}
		if item.Kind() != reflect.Struct {
			return reflect.Value{}, false
		}
		f, ok := fieldOf(item.Type(), "key")
		if !ok {
			return reflect.Value{}, false
		}
		has := item.FieldByIndex(f.Index)
		if has.Type() != reflect.TypeOf(key) {
			return reflect.Value{}, false
		}
		if has.Interface() == key {
			return item, true
		}
	}
	return reflect.Value{}, true
}

var typeNamed = types.TypeFunc()

// array wraps a slice as the API does: []string becomes ArrayOfString.
func array(value reflect.Value) reflect.Value {
	if !value.IsValid() || value.Kind() != reflect.Slice {
		return value
	}
	kind := strings.TrimPrefix(value.Type().Elem().Name(), "Base")
	switch value.Type().Elem().Kind() {
	case reflect.Uint8:
		kind = "Byte"
	case reflect.Int16:
		kind = "Short"
	case reflect.Int32:
		kind = "Int"
	case reflect.Int64:
		kind = "Long"
	case reflect.String:
		if kind == "string" {
			kind = "String"
		}
	}
	t, _ := typeNamed("ArrayOf" + kind)
	wrapped := reflect.New(t).Elem()
	field := wrapped.Field(0)
	field.Set(value.Convert(field.Type()))
	return wrapped
}

// fields caches the fields of types by name, because a lookup walks all embedded types.
var fields sync.Map

type fieldName struct {
	of   reflect.Type
	name string
}

// fieldOf returns the struct field of a property.
func fieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	key := fieldName{t, name}
	if known, ok := fields.Load(key); ok {
		f := known.(reflect.StructField)
		return f, f.Index != nil
	}
	var f reflect.StructField
	if name != "" {
		f, _ = t.FieldByName(strings.ToUpper(name[:1]) + name[1:])
	}
	fields.Store(key, f)
	return f, f.Index != nil
}

func is(b *bool) bool { return b != nil && *b }
