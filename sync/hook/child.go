package hook

import (
	"encoding/json"
	"fmt"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// childHead is what children of all kinds have; the fields of each kind follow.
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

// encodeChild writes a child as a Kubernetes object. One that is to stay as it was applied last is passed on as it is.
func encodeChild(namespace string, c *plan.Child) (json.RawMessage, error) {
	if c.LastApplied != "" {
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
		return nil, fmt.Errorf("the fields of %s are no JSON object with something in it", c.Key)
	}
	object[len(object)-1] = ',' // the two objects become one
	return append(object, fields[1:]...), nil
}
