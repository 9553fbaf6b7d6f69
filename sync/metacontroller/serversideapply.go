package metacontroller

import (
	"encoding/json"
	"fmt"
)

// withManagedFields returns a child as the API server stores it after Metacontroller's server-side apply, with fields of other managers: an
// annotation, and a default.
func withManagedFields(applied json.RawMessage) (json.RawMessage, error) {
	var object map[string]any
	if err := json.Unmarshal(applied, &object); err != nil {
		return nil, err
	}
	meta := object["metadata"].(map[string]any)
	meta["ownerReferences"] = []any{map[string]any{"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "name": "web", "uid": "u-1", "controller": true}}
	fields := fieldsOf("", object).(map[string]any)
	for _, name := range []string{"f:apiVersion", "f:kind"} {
		delete(fields, name)
	}
	for _, name := range []string{"f:name", "f:namespace"} {
		delete(fields["f:metadata"].(map[string]any), name)
	}
	meta["uid"], meta["resourceVersion"] = "c-1", "7"
	if annotations, _ := meta["annotations"].(map[string]any); annotations != nil {
		annotations["example.com/other"] = "of another"
	} else {
		meta["annotations"] = map[string]any{"example.com/other": "of another"}
	}
	if spec, _ := object["spec"].(map[string]any); spec != nil {
		spec["sessionAffinity"] = "None" // a default
	}
	meta["managedFields"] = []any{
		map[string]any{"manager": "kubectl-edit", "operation": "Update", "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:annotations": map[string]any{"f:example.com/other": map[string]any{}}}}},
		map[string]any{"manager": "metacontroller", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields},
	}
	return json.Marshal(object)
}

// listKeys are the keys of the lists that the API server merges by item. It replaces other lists as a whole.
var listKeys = map[string][]string{"ownerReferences": {"uid"}, "ports": {"port", "protocol"}}

// fieldsOf returns the set of a value's fields in the format of FieldsV1.
func fieldsOf(name string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		fields := map[string]any{}
		for key, v := range value {
			if _, isSlice := value["endpoints"]; isSlice && key == "ports" { // an EndpointSlice's ports are replaced as a whole
				key, v = "ports", nil
			}
			fields["f:"+key] = fieldsOf(key, v)
		}
		return fields
	case []any:
		keys := listKeys[name]
		fields := map[string]any{}
		for _, item := range value {
			object, is := item.(map[string]any)
			if keys == nil || !is {
				return map[string]any{}
			}
			of := map[string]any{}
			for _, key := range keys {
				of[key] = object[key]
			}
			text, err := json.Marshal(of)
			if err != nil {
				panic(fmt.Sprint(err)) // can't fail: the value was decoded from JSON
			}
			set := fieldsOf("", object).(map[string]any)
			set["."] = map[string]any{}
			fields["k:"+string(text)] = set
		}
		return fields
	}
	return map[string]any{}
}
