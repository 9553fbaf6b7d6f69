package manifests_test

import (
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
		t.Fatalf("the CRD has the versions %v; want %s alone", crd.Spec.Versions, v1alpha1.GroupVersion.Version)
	}
	if crd.Spec.Scope != apiextensionsv1.NamespaceScoped || !slices.Equal(crd.Spec.Names.ShortNames, []string{"vg"}) || !slices.Equal(crd.Spec.Names.Categories, []string{"all"}) {
		t.Errorf("scope %s, short names %v, categories %v; want %s, %v and %v", crd.Spec.Scope, crd.Spec.Names.ShortNames, crd.Spec.Names.Categories, apiextensionsv1.NamespaceScoped, []string{"vg"}, []string{"all"})
	}
	return crd.Spec.Versions[0]
}

func TestTheSchemaRequiresNoMoreThanThreeFields(t *testing.T) {
	root := crd(t).Schema.OpenAPIV3Schema
	if got := root.Properties["spec"].Required; !slices.Equal(got, []string{"cpu", "memory", "template"}) {
		t.Errorf("required fields: %v; want %v", got, []string{"cpu", "memory", "template"})
	}
	bound := fmt.Sprintf("size() <= %d", v1alpha1.MaxNameLength)
	if !slices.ContainsFunc(root.XValidations, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, bound) }) {
		t.Errorf("the schema has no rule with %q for the name: %v", bound, root.XValidations)
	}
}

// An API server reports a violation with the path and message of the rule.
func TestEveryRuleSaysWhatIsWrongAndWhere(t *testing.T) {
	rules := 0
	walk("", crd(t).Schema.OpenAPIV3Schema, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			rules++
			if rule.Message == "" {
				t.Errorf("%s: no message: %s", path, rule.Rule)
			}
			if s.Type == "object" && s.AdditionalProperties == nil && rule.FieldPath == "" {
				t.Errorf("%s: no fieldPath for the rule %s", path, rule.Rule)
			}
		}
	})
	if rules < 10 {
		t.Errorf("found only %d rules", rules)
	}
}

// Scripts count columns: the ancestor's columns keep their places, except for the message, which is long and comes last.
func TestTheColumnsKeepTheNamesAndOrderOfTheAncestors(t *testing.T) {
	var columns, wide []string
	for _, column := range crd(t).AdditionalPrinterColumns {
		if column.Priority > 0 {
			wide = append(wide, column.Name)
			continue
		}
		columns = append(columns, column.Name)
	}
	want := []string{"Phase", "Current", "Desired", "CPU", "Memory", "Template", "Ready", "Age", "Last_Message"}
	if !slices.Equal(columns, want) {
		t.Errorf("columns %v, want %v", columns, want)
	}
	if want := []string{"Available", "Updated", "Standby", "Reason", "VCenter"}; !slices.Equal(wide, want) {
		t.Errorf("additional columns of -o wide %v, want %v", wide, want)
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

// A bound that only a rule can state is a number in the rule's text.
func TestTheRulesStateTheBoundsOfTheHooks(t *testing.T) {
	spec := crd(t).Schema.OpenAPIV3Schema.Properties["spec"]
	want := map[string][]int{
		"placement.folder":    {v1alpha1.MaxVimName},
		"customAttributes":    {v1alpha1.MaxVimName, v1alpha1.MaxAttributeValue},
		"extraConfig":         {v1alpha1.MaxExtraKey, v1alpha1.MaxExtraValue},
		"service.annotations": {v1alpha1.MaxAnnotationsSize},
	}
	walk("", &spec, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		for _, bound := range want[path] {
			text := fmt.Sprintf("<= %d", bound)
			if !slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, text) }) {
				t.Errorf("%s: no rule says %q", path, text)
			}
		}
		delete(want, path)
	})
	for path := range want {
		t.Errorf("%s doesn't exist", path)
	}
}

// A group's folder is the lock of its members' names, so the folder must not change. Only an API server knows the previous spec, so a rule of
// the CRD must forbid the change.
func TestThePlaceOfTheFolderCannotChangeWhileThereAreMembers(t *testing.T) {
	for _, name := range []string{"datacenter", "folder"} {
		if !slices.ContainsFunc(crd(t).Schema.OpenAPIV3Schema.XValidations, func(r apiextensionsv1.ValidationRule) bool {
			return r.FieldPath == ".spec.placement."+name && strings.Contains(r.Rule, "oldSelf.spec.placement."+name) &&
				strings.Contains(r.Rule, "currentReplicas")
		}) {
			t.Errorf("placement.%s can be changed at any time", name)
		}
	}
}
