package hook

import (
	"encoding/json"
	"fmt"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// childHead has the fields that children of all kinds share; the fields of each kind follow them.
type childHead struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   childMetadata `json:"metadata"`
}

type childMetadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// encodeChild writes a child as a Kubernetes object. A child with LastApplied is that JSON, unchanged. If the JSON isn't an object of that
// child, because the record was edited, the object has only its name, and the child loses at most the fields in the record.
func encodeChild(namespace string, c *plan.Child) (json.RawMessage, error) {
	if c.LastApplied != "" && isRecordOf(namespace, c.Key, c.LastApplied) {
		return json.RawMessage(c.LastApplied), nil
	}
	kind, version, _ := strings.Cut(c.Key.Kind, ".")
	object, err := json.Marshal(childHead{version, kind, childMetadata{c.Key.Name, namespace, c.Labels, c.Annotations}})
	if err != nil || c.Fields == nil {
		return object, err
	}
	fields, err := json.Marshal(c.Fields)
	if err != nil {
		return nil, err
	}
	if len(fields) <= len("{}") || fields[0] != '{' {
		return nil, fmt.Errorf("the fields of %s are not a non-empty JSON object", c.Key)
	}
	object[len(object)-1] = ',' // the two objects become one
	return append(object, fields[1:]...), nil
}

// isRecordOf reports whether a text is the JSON object of that child. Anything else in an answer fails the whole sync; and if an object
// named another namespace, Metacontroller would write it there, with its own rights
// (https://github.com/metacontroller/metacontroller/blob/master/pkg/controller/common/manage_children.go): anyone who can edit a child here
// could write there. Keys are compared with case, as in Kubernetes.
func isRecordOf(namespace string, key plan.ChildKey, text string) bool {
	var object, meta map[string]json.RawMessage
	var labels map[string]string
	kind, version, _ := strings.Cut(key.Kind, ".")
	is := func(field json.RawMessage, want string) bool {
		var has string
		return json.Unmarshal(field, &has) == nil && has == want
	}
	return json.Unmarshal([]byte(text), &object) == nil && is(object["kind"], kind) && is(object["apiVersion"], version) &&
		json.Unmarshal(object["metadata"], &meta) == nil && is(meta["name"], key.Name) && is(meta["namespace"], namespace) &&
		(meta["labels"] == nil || json.Unmarshal(meta["labels"], &labels) == nil)
}
