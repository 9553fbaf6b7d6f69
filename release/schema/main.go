// Command schema writes the JSON schema of VmGroup for editors, from the CRD that it reads. `make generate` runs it.
//
// A structural schema is nearly a JSON schema. What differs: the API server prunes fields that it doesn't know, and kubectl refuses them,
// so the objects with known fields allow no others; rules in CEL are left to the API server; and users don't write a status.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return err
	}
	if len(crd.Spec.Versions) != 1 {
		return errors.New("the CRD doesn't have exactly one version")
	}
	version := crd.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	fields, _ := schema["properties"].(map[string]any)
	if fields["spec"] == nil {
		return errors.New("the CRD has no spec")
	}
	fields["status"] = map[string]any{"type": "object", "description": "Written by the server"}
	forEditors(schema)
	fields["apiVersion"] = map[string]any{"const": crd.Spec.Group + "/" + version.Name}
	fields["kind"] = map[string]any{"const": crd.Spec.Names.Kind}
	schema["$schema"] = "http://json-schema.org/draft-07/schema#" // yaml-language-server's
	schema["required"] = []string{"apiVersion", "kind", "metadata", "spec"}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	return encoder.Encode(schema)
}

// forEditors changes a structural schema, and all within it.
func forEditors(v any) {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			forEditors(inner)
		}
	case map[string]any:
		for key, inner := range v {
			if strings.HasPrefix(key, "x-kubernetes-") { // no field has such a name
				delete(v, key)
			} else {
				forEditors(inner)
			}
		}
		if _, known := v["properties"].(map[string]any); known && v["type"] == "object" && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
	}
}
