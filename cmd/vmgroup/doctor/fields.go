package doctor

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

const (
	group      = "vm.codeconnect.vmworld.com"
	apiVersion = "v1alpha1"
	groupsCRD  = "vmgroups." + group
)

// definition is a CustomResourceDefinition.
type definition struct {
	object
	Spec struct {
		Versions []struct {
			Name   string
			Served bool
			Schema struct{ OpenAPIV3Schema schema }
		}
	}
	Status struct{ Conditions []condition }
}

type schema struct {
	Properties           map[string]schema
	Items                *schema
	AdditionalProperties json.RawMessage // a schema, or a flag
}

func (d *definition) established() bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c condition) bool { return c.Type == "Established" && c.Status == "True" })
}

func (d *definition) why() string {
	for _, c := range d.Status.Conditions {
		if c.Status == "False" {
			return join(c.Reason, c.Message)
		}
	}
	return "the API server hasn't established it"
}

// served returns the schema of the version that the server knows; nil if the CRD doesn't serve it.
func (d *definition) served() *schema {
	for i := range d.Spec.Versions {
		if v := &d.Spec.Versions[i]; v.Name == apiVersion && v.Served {
			return &v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

// fields returns the paths of the fields in the CRD's spec and status.
func (d *definition) fields() []string {
	found := map[string]bool{}
	for _, part := range []string{"spec", "status"} {
		if at, has := d.served().Properties[part]; has {
			at.walk(part, found)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (s *schema) walk(path string, found map[string]bool) {
	for name := range s.Properties {
		below := s.Properties[name]
		found[path+"."+name] = true
		below.walk(path+"."+name, found)
	}
	if s.Items != nil {
		s.Items.walk(path, found)
	}
	var values schema
	if json.Unmarshal(s.AdditionalProperties, &values) == nil {
		values.walk(path, found)
	}
}

// Fields returns the paths of the fields that a program knows: those in the spec and status of a type.
func Fields(t reflect.Type) []string {
	found := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == "spec" || name == "status" {
			walkType(f.Type, name, found)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func walkType(t reflect.Type, path string, found map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if _, own := reflect.New(t).Interface().(json.Unmarshaler); own || t.Kind() != reflect.Struct {
		return // a time, for example, is one value
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			found[path+"."+name] = true
			walkType(f.Type, path+"."+name, found)
		}
	}
}

// differences returns the paths that only one of two sorted lists has, without those below another one.
func differences(has, wants []string) (lacks, more []string) {
	only := func(of, without []string) (paths []string) {
		for _, path := range of {
			if _, there := slices.BinarySearch(without, path); there {
				continue
			}
			if len(paths) == 0 || !strings.HasPrefix(path, paths[len(paths)-1]+".") {
				paths = append(paths, path)
			}
		}
		return paths
	}
	return only(wants, has), only(has, wants)
}
