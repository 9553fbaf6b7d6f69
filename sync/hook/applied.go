package hook

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metacontroller has one of two records of what it last applied to a child. With dynamic apply, its default, the record is an annotation.
// With server-side apply, the API server records the fields in managedFields, and their values are in the child. An answer must contain all
// of these fields: the API server removes a field that it lacks.
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management;
// https://github.com/metacontroller/metacontroller/blob/v4.17.2/pkg/controller/common/manage_children.go, ServerSideApply.)

// managedFields is an entry of a child's metadata.managedFields.
type managedFields struct {
	Operation   metav1.ManagedFieldsOperationType `json:"operation"`
	Subresource string                            `json:"subresource"`
	FieldsV1    json.RawMessage                   `json:"fieldsV1"`
}

// serverSideApplied returns the child as it was last applied by server-side apply, in JSON; empty if it wasn't. Metacontroller's field
// manager can have any name (--apply-strategy-ssa-field-manager), so it is recognized by the owner reference, which it always applies.
func serverSideApplied(child []byte, managed []managedFields) string {
	var fields fieldSet
	for i := range managed {
		m := &managed[i]
		var applied fieldSet
		if m.Operation != metav1.ManagedFieldsOperationApply || m.Subresource != "" || json.Unmarshal(m.FieldsV1, &applied) != nil {
			continue
		}
		if applied["f:metadata"]["f:ownerReferences"] != nil {
			fields = fields.union(applied)
		}
	}
	if fields == nil {
		return ""
	}
	var object map[string]any
	decoder := json.NewDecoder(bytes.NewReader(child))
	decoder.UseNumber() // keep numbers as written
	if decoder.Decode(&object) != nil {
		return ""
	}
	applied, _ := fields.of(object).(map[string]any)
	meta, _ := applied["metadata"].(map[string]any)
	if meta == nil {
		return ""
	}
	delete(meta, "ownerReferences") // Metacontroller sets these itself
	was, _ := object["metadata"].(map[string]any)
	meta["name"], meta["namespace"] = was["name"], was["namespace"]
	applied["apiVersion"], applied["kind"] = object["apiVersion"], object["kind"]
	text, err := json.Marshal(applied)
	if err != nil {
		return ""
	}
	return string(text)
}

// fieldSet is a set of fields in the format of FieldsV1: f:<name> for a field, k:<keys> for the item of a list with these values, v:<value> for an
// item that is a value, and "." for the field or item itself. A set without members is a leaf: a value, or a list that is replaced as a whole.
type fieldSet map[string]fieldSet

// union returns the union of two sets.
func (s fieldSet) union(other fieldSet) fieldSet {
	if s == nil {
		return other
	}
	all := maps.Clone(s)
	for name, fields := range other {
		if was, both := all[name]; both && len(was) > 0 && len(fields) > 0 {
			fields = was.union(fields)
		} else if both { // a leaf includes everything below
			fields = fieldSet{}
		}
		all[name] = fields
	}
	return all
}

// of returns the part of a value that is in the set; nil if no part is.
func (s fieldSet) of(value any) any {
	if len(s) == 0 {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		part := map[string]any{}
		for name, fields := range s {
			field, is := strings.CutPrefix(name, "f:")
			if v, there := value[field]; is && there {
				if v = fields.of(v); v != nil {
					part[field] = v
				}
			}
		}
		if len(part) > 0 {
			return part
		}
	case []any:
		var part []any
		for _, item := range value {
			for name, fields := range s {
				if !isItem(name, item) {
					continue
				}
				if v := fields.of(item); v != nil {
					part = append(part, v)
				}
				break
			}
		}
		if part != nil {
			return part
		}
	}
	return nil
}

// isItem reports whether a key of a set names that item of a list.
func isItem(name string, item any) bool {
	if keys, is := strings.CutPrefix(name, "k:"); is {
		object, _ := item.(map[string]any)
		for key, value := range decoded[map[string]any](keys) {
			if object == nil || !reflect.DeepEqual(object[key], value) {
				return false
			}
		}
		return object != nil
	}
	value, is := strings.CutPrefix(name, "v:")
	return is && reflect.DeepEqual(decoded[any](value), item)
}

// decoded decodes a JSON text and keeps its numbers as written; it returns the zero value for invalid JSON.
func decoded[T any](text string) (v T) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	_ = decoder.Decode(&v)
	return v
}
