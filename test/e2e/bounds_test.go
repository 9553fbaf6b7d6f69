package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// bounded is the part of the CRD's schema that states bounds.
type bounded struct {
	Properties           map[string]*bounded
	Items                *bounded
	AdditionalProperties *bounded
	Minimum, Maximum     *int64
	MinLength, MaxLength *int
	MaxItems             *int
	MaxProperties        *int
	Enum                 []any
	Pattern              string
}

func specSchema(t *testing.T) *bounded {
	t.Helper()
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema *bounded `json:"openAPIV3Schema"`
				}
			}
		}
	}
	must.Succeed(t, yaml.Unmarshal(read(t, crdFile), &crd))
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// breach is one bound, and a value just outside it.
type breach struct {
	path  string
	bound string // the bound in the API server's words: the number, or an allowed value
	set   func(spec map[string]any)
}

// breaches returns all bounds of a schema, for a value that has every field. set replaces the value of a field.
func breaches(path string, s *bounded, value any, set func(spec map[string]any, value any)) (all []breach) {
	add := func(bound any, outside any) {
		all = append(all, breach{path, fmt.Sprint(bound), func(spec map[string]any) { set(spec, outside) }})
	}
	if s.Minimum != nil {
		add(*s.Minimum, *s.Minimum-1)
	}
	if s.Maximum != nil {
		add(*s.Maximum, *s.Maximum+1)
	}
	if s.MinLength != nil {
		add(*s.MinLength, strings.Repeat("a", *s.MinLength-1))
	}
	if s.MaxLength != nil {
		add(*s.MaxLength, strings.Repeat("a", *s.MaxLength+1))
	}
	if len(s.Enum) > 0 {
		add(fmt.Sprintf("%q", s.Enum[0]), "Otherwise")
	}
	if s.Pattern != "" {
		add(s.Pattern, "/ ?\t/")
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			all = append(all, breaches(path+"."+name, s.Properties[name], v[name], func(spec map[string]any, value any) {
				within := maps.Clone(v)
				within[name] = value
				set(spec, within)
			})...)
		}
		if s.MaxProperties != nil {
			many := map[string]any{}
			for i := range *s.MaxProperties + 1 {
				many[fmt.Sprintf("a%d", i)] = ""
			}
			add(*s.MaxProperties, many)
		}
	case []any:
		if s.MaxItems != nil {
			add(*s.MaxItems, slices.Repeat(v[:1], *s.MaxItems+1))
		}
		all = append(all, breaches(path+"[0]", s.Items, v[0], func(spec map[string]any, value any) {
			set(spec, append([]any{value}, v[1:]...))
		})...)
	}
	return all
}

// The full sample has every field, except for fields that exclude fields of the sample.
func TestTheAPIServerEnforcesEveryBoundOfTheSchemaAndNamesIt(t *testing.T) {
	k := api(t)
	full := parse(t, read(t, repository+"/manifests/samples/vmgroup-full.yaml"))
	name := full["metadata"].(map[string]any)["name"].(string)
	spec := full["spec"].(map[string]any)
	spec["placement"].(map[string]any)["pool"] = "C0"
	spec["userData"].(map[string]any)["configMapKeyRef"] = map[string]any{"name": "a", "key": "a"}
	spec["customizationSpec"] = "a"
	spec["readiness"].(map[string]any)["tcpSocket"] = map[string]any{"port": 1}
	all := breaches("spec", specSchema(t), spec, func(spec map[string]any, value any) { maps.Copy(spec, value.(map[string]any)) })
	if len(all) < 90 {
		t.Errorf("found only %d bounds", len(all))
	}
	for _, b := range all {
		t.Run(b.path+" "+b.bound, func(t *testing.T) {
			broken := maps.Clone(spec)
			b.set(broken)
			_, err := k.groups("default").Create(context.Background(), group(name, deepCopy(t, broken)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if causes := refusal(t, err); !names(causes, b.path, b.bound) {
				t.Errorf("the refusal doesn't say %q, but: %v", b.bound, causes)
			}
		})
	}
	t.Logf("%d bounds", len(all))
}

// deepCopy returns a copy of a value that contains only types that a client can send.
func deepCopy(t *testing.T, v map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	must.Succeed(t, err)
	return parse(t, raw)
}
