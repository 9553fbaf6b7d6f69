package manifests_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// vcenterLabel says which install serves a group.
const vcenterLabel = "vm.codeconnect.vmworld.com/vcenter"

func selectorOf(t *testing.T, objects built, id string) *metav1.LabelSelector {
	t.Helper()
	return decode[compositeController](t, objects, id).Spec.ParentResource.LabelSelector
}

// Groups have no label unless several servers are installed, so the default install must select groups without it.
func TestTheDefaultInstallSelectsTheGroupsWithoutTheLabel(t *testing.T) {
	for tree := range trees {
		selector, err := metav1.LabelSelectorAsSelector(selectorOf(t, build(t, tree), "CompositeController/vmgroup"))
		if err != nil || selector.String() != "!"+vcenterLabel {
			t.Errorf("%s: the default install selects %q, %v", tree, selector, err)
		}
	}
}

// clusterWide matches the kinds whose objects the default install has for all installs.
var clusterWide = regexp.MustCompile(`^(CustomResourceDefinition|ClusterRole|ClusterRoleBinding|ValidatingAdmissionPolicy|ValidatingAdmissionPolicyBinding)/`)

// Because of this test, the other tests of the default install are valid for other installs, too, with every component.
func TestAnInstallForAnotherVCenterDiffersOnlyInItsNameNamespaceAndAddress(t *testing.T) {
	for another, ours := range map[string]string{"/another/root": "/manifests", "/another/everything": "/with/everything"} {
		got := buildNow(t, another)
		selector, err := metav1.LabelSelectorAsSelector(selectorOf(t, got, "CompositeController/vmgroup-us-east"))
		if err != nil || selector.String() != vcenterLabel+"=us-east" {
			t.Errorf("%s: selects %q, %v", another, selector, err)
		}
		want := built{}
		for id, raw := range buildNow(t, ours) {
			if !clusterWide.MatchString(id) {
				want[strings.NewReplacer("vmgroup-system", "vmgroup-us-east", "CompositeController/vmgroup", "CompositeController/vmgroup-us-east").Replace(id)] = raw
			}
		}
		for id, raw := range want {
			theirs, there := got[id]
			if !there {
				t.Errorf("%s has no %s", another, id)
				continue
			}
			delete(got, id)
			text := strings.ReplaceAll(string(raw), "vmgroup-system", "vmgroup-us-east")
			switch id {
			case "CompositeController/vmgroup-us-east":
				text = strings.NewReplacer(`"name":"vmgroup"},`, `"name":"vmgroup-us-east"},`,
					`{"matchExpressions":[{"key":"`+vcenterLabel+`","operator":"DoesNotExist"}]}`, `{"matchLabels":{"`+vcenterLabel+`":"us-east"}}`).Replace(text)
			case "Deployment/vmgroup":
				text = strings.NewReplacer(`"valueFrom":{"secretKeyRef":{"key":"VC_HOST","name":"vc-creds"}}`, `"value":"vc-east.example.com"`,
					`{"key":"VC_HOST","path":"VC_HOST"},`, "").Replace(text)
			}
			if a, b := withoutSettings(t, text), withoutSettings(t, string(theirs)); !reflect.DeepEqual(a, b) {
				t.Errorf("%s, %s: want\n%s\ngot\n%s", another, id, text, theirs)
			}
		}
		for id := range got {
			if !strings.HasPrefix(id, "ConfigMap/vmgroup-settings-") {
				t.Errorf("%s has %s; want %q at its start", another, id, "ConfigMap/vmgroup-settings-")
			}
		}
	}
}

// withoutSettings decodes an object without the hash of the settings, and sorts lists of named objects, which a patch can reorder.
func withoutSettings(t *testing.T, text string) any {
	t.Helper()
	var v any
	must.Succeed(t, json.Unmarshal([]byte(regexp.MustCompile(`vmgroup-settings-[a-z0-9]{10}`).ReplaceAllString(text, "vmgroup-settings")), &v))
	return sorted(v)
}

func sorted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = sorted(v[key])
		}
	case []any:
		for i := range v {
			v[i] = sorted(v[i])
		}
		slices.SortStableFunc(v, func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
	}
	return v
}

// nameOf is the name of an entry of a list of named objects; other lists stay in order.
func nameOf(v any) string {
	named, _ := v.(map[string]any)
	name, _ := named["name"].(string)
	return name
}
