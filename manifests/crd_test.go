package manifests_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

func crd(t *testing.T) apiextensionsv1.CustomResourceDefinitionVersion {
	t.Helper()
	crd := decode[apiextensionsv1.CustomResourceDefinition](t, build(t, "root"), "CustomResourceDefinition/vmgroups.vm.codeconnect.vmworld.com")
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != v1alpha1.GroupVersion.Version {
		t.Fatalf("not one version v1alpha1: %v", crd.Spec.Versions)
	}
	if crd.Spec.Scope != apiextensionsv1.NamespaceScoped || !slices.Equal(crd.Spec.Names.ShortNames, []string{"vg"}) {
		t.Errorf("scope %s, short names %v", crd.Spec.Scope, crd.Spec.Names.ShortNames)
	}
	return crd.Spec.Versions[0]
}

func TestTheSchemaHasTheBoundsThatTheHooksCheck(t *testing.T) {
	root := crd(t).Schema.OpenAPIV3Schema
	spec := root.Properties["spec"]
	for field, want := range map[string][2]float64{
		"cpu":      {1, v1alpha1.MaxCPU},
		"memory":   {1, v1alpha1.MaxMemory},
		"replicas": {0, v1alpha1.MaxReplicas},
	} {
		schema := spec.Properties[field]
		if schema.Minimum == nil || schema.Maximum == nil || *schema.Minimum != want[0] || *schema.Maximum != want[1] {
			t.Errorf("%s is bounded by %v and %v, the hooks say %v", field, schema.Minimum, schema.Maximum, want)
		}
	}
	if schema := spec.Properties["template"]; schema.MinLength == nil || *schema.MinLength != 1 ||
		schema.MaxLength == nil || *schema.MaxLength != v1alpha1.MaxTemplateLength {
		t.Errorf("template's length is bounded by %v and %v", schema.MinLength, schema.MaxLength)
	}
	if !slices.Equal(spec.Required, []string{"cpu", "memory", "template"}) {
		t.Errorf("required are %v", spec.Required)
	}
	defaults := map[string]any{"replicas": v1alpha1.DefaultReplicas, "inventory": v1alpha1.InventoryConfigMap}
	for field, schema := range spec.Properties {
		want, ok := defaults[field]
		if slices.Contains(spec.Required, field) {
			continue
		}
		wantJSON, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if !ok || schema.Default == nil || string(schema.Default.Raw) != string(wantJSON) {
			t.Errorf("%s is optional, and its default is %s, not %s", field, schema.Default, wantJSON)
		}
	}
	bound := fmt.Sprintf("size() <= %d", v1alpha1.MaxNameLength)
	if !slices.ContainsFunc(root.XValidations, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, bound) }) {
		t.Errorf("no rule says %q of the name: %v", bound, root.XValidations)
	}
}

func TestTheColumnsAreThoseOfTheAncestorInItsOrder(t *testing.T) {
	var columns []string
	for _, column := range crd(t).AdditionalPrinterColumns {
		columns = append(columns, column.Name)
	}
	want := []string{"Phase", "Current", "Desired", "CPU", "Memory", "Template", "Last_Message"}
	if !slices.Equal(columns, want) {
		t.Errorf("the columns are %v, not %v", columns, want)
	}
}

func TestTheSubresourcesServeMetacontrollerAndAutoscalers(t *testing.T) {
	version := crd(t)
	if version.Subresources == nil || version.Subresources.Status == nil || version.Subresources.Scale == nil {
		t.Fatal("status or scale is missing")
	}
	scale := version.Subresources.Scale
	if scale.SpecReplicasPath != ".spec.replicas" || scale.StatusReplicasPath != ".status.currentReplicas" ||
		scale.LabelSelectorPath == nil || *scale.LabelSelectorPath != ".status.selector" {
		t.Errorf("scale is %+v", scale)
	}
	status := version.Schema.OpenAPIV3Schema.Properties["status"]
	if _, ok := status.Properties["observedGeneration"]; !ok {
		t.Error("the schema prunes observedGeneration, so Metacontroller would write it at every sync")
	}
	if members := status.Properties["members"]; members.XListType == nil || *members.XListType != "atomic" {
		t.Error("status.members is not atomic")
	}
}
