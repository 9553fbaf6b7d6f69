package hook

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metacontroller records what it last applied to a child in one of two ways. With dynamic apply, its default, the record is an annotation.
// With server-side apply the API server keeps it, in managedFields: the fields are there, and their values in the child. An answer
// has to have all of them: what it lacks, the API server removes.
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management;
// https://github.com/metacontroller/metacontroller/blob/v4.17.2/pkg/controller/common/manage_children.go, ServerSideApply.)

// managedFields is an entry of a child's metadata.managedFields.
type managedFields struct {
	Operation   metav1.ManagedFieldsOperationType `json:"operation"`
	Subresource string                            `json:"subresource"`
	FieldsV1    json.RawMessage                   `json:"fieldsV1"`
}

// serverSideApplied returns the child as it was last applied by server-side apply, in JSON; empty if it wasn't. Metacontroller's field
// manager can have any name (--apply-strategy-ssa-field-manager), but it always applies the reference to the owner.
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
	decoder.UseNumber() // as they are
	if decoder.Decode(&object) != nil {
		return ""
	}
	applied, _ := fields.of(object).(map[string]any)
	meta, _ := applied["metadata"].(map[string]any)
	if meta == nil {
		return ""
	}
	delete(meta, "ownerReferences") // Metacontroller's part
	was, _ := object["metadata"].(map[string]any)
	meta["name"], meta["namespace"] = was["name"], was["namespace"]
	applied["apiVersion"], applied["kind"] = object["apiVersion"], object["kind"]
	text, err := json.Marshal(applied)
	if err != nil {
		return ""
	}
	return string(text)
}

// fieldSet is a set of fields as FieldsV1 has it: f:<name> for a field, k:<keys> for the item of a list that has these values,
// v:<value> for an item that is a value, and "." for the thing itself. A set without members is a leaf: a value, or a list that is replaced whole.
type fieldSet map[string]fieldSet

// union is a set of what either has.
func (s fieldSet) union(other fieldSet) fieldSet {
	if s == nil {
		return other
	}
	all := maps.Clone(s)
	for name, fields := range other {
		if was, both := all[name]; both && len(was) > 0 && len(fields) > 0 {
			fields = was.union(fields)
		} else if both { // a leaf is all of it
			fields = fieldSet{}
		}
		all[name] = fields
	}
	return all
}

// of is the part of a value that is in the set; nil for none.
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

// isItem reports whether a member of a set is that item of a list.
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

// decoded is a JSON text with its numbers as they are; the zero value if it is none.
func decoded[T any](text string) (v T) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	_ = decoder.Decode(&v)
	return v
}
