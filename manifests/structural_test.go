package manifests_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// structural is the schema in the form that an API server uses.
func structural(t *testing.T) *schema.Structural {
	t.Helper()
	internal := apiextensions.JSONSchemaProps{}
	must.Succeed(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd(t).Schema.OpenAPIV3Schema, &internal, nil))
	s, err := schema.NewStructural(&internal)
	must.Succeed(t, err)
	return s
}

// pruned are the fields of an object that an API server would drop silently.
func pruned(t *testing.T, object map[string]any) []string {
	t.Helper()
	return pruning.PruneWithOptions(object, structural(t), true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}

func TestTheSchemaIsStructural(t *testing.T) {
	if errs := schema.ValidateStructural(field.NewPath("schema"), structural(t)); len(errs) > 0 {
		t.Errorf("the schema is not structural: %v", errs.ToAggregate())
	}
}

func asObject(t *testing.T, v any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	must.Succeed(t, err)
	object := map[string]any{}
	must.Succeed(t, json.Unmarshal(raw, &object))
	return object
}

// An API server refuses the whole status for a null or a missing required field.
func TestAnEmptyStatusHasEveryRequiredFieldAndNoNull(t *testing.T) {
	status := v1alpha1.VmGroupStatus{Members: []v1alpha1.Member{{}}}
	raw, err := json.Marshal(status)
	if err != nil || strings.Contains(string(raw), "null") {
		t.Errorf("%s: %v", raw, err)
	}
	schema := crd(t).Schema.OpenAPIV3Schema.Properties["status"]
	object := asObject(t, status)
	member, _ := object["members"].([]any)[0].(map[string]any)
	for name, has := range map[string][2][]string{
		"status": {schema.Required, slices.Collect(maps.Keys(object))},
		"member": {schema.Properties["members"].Items.Schema.Required, slices.Collect(maps.Keys(member))},
	} {
		for _, required := range has[0] {
			if !slices.Contains(has[1], required) {
				t.Errorf("%s: the required %s is missing: %v", name, required, has[1])
			}
		}
	}
}
