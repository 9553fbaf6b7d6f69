package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

var vmgroups = schema.GroupVersionResource{Group: "vm.codeconnect.vmworld.com", Version: "v1alpha1", Resource: "vmgroups"}

func (k *kube) groups(namespace string) dynamic.ResourceInterface {
	return k.Resource(vmgroups).Namespace(namespace)
}

// group is a VmGroup whose spec adds to the three required fields.
func group(name string, spec map[string]any) *unstructured.Unstructured {
	whole := map[string]any{"cpu": int64(2), "memory": int64(4), "template": "t"}
	maps.Copy(whole, spec)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "metadata": map[string]any{"name": name}, "spec": whole,
	}}
}

// parse reads YAML or JSON as the API's clients do: numbers are int64 or float64.
func parse(t *testing.T, text []byte) map[string]any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(text)
	must.Succeed(t, err)
	u := unstructured.Unstructured{}
	must.Succeed(t, u.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"Any","v":`+string(asJSON)+`}`)))
	v, _ := u.Object["v"].(map[string]any)
	return v
}

var (
	strictly = metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	dryly    = metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}
)

func TestEverySampleIsAcceptedAndASecondApplyChangesNothing(t *testing.T) {
	k := api(t)
	k.systemNamespace(t) // the Secret vc-creds goes there
	for _, path := range glob(t, "manifests/samples/*.yaml") {
		if filepath.Base(path) == "tenant.yaml" { // it needs components/tenants: TestTheSampleOfALimitIsClosed
			continue
		}
		t.Run(path, func(t *testing.T) {
			if out := k.kubectl(t, "apply", "--validate=strict", "-f", path); !strings.Contains(out, " created\n") {
				t.Errorf("kubectl apply did not say that it created the sample: %s", out)
			}
			before := k.versions(t, "-f", path)
			k.kubectl(t, "apply", "--validate=strict", "-f", path)
			if after := k.versions(t, "-f", path); after != before {
				t.Errorf("versions before:\n%s\nnow:\n%s", before, after)
			}
			k.kubectl(t, "delete", "-f", path)
		})
	}
	for _, path := range glob(t, "manifests/samples/hooks/*.json") {
		var request struct{ Parent struct{ Spec map[string]any } }
		must.Succeed(t, json.Unmarshal(read(t, path), &request))
		parent, _ := parse(t, read(t, path))["parent"].(map[string]any)
		spec, _ := parent["spec"].(map[string]any)
		if _, err := k.groups("default").Create(context.Background(), group("hooks", spec), dryly); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// refusal returns the causes of the API server's refusal, one for each field.
func refusal(t *testing.T, err error) []metav1.StatusCause {
	t.Helper()
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		t.Fatalf("want a refusal as invalid, got: %v", err)
	}
	return status.Status().Details.Causes
}

// names reports whether the message of a cause about the field, or about a field in it, contains the words.
func names(causes []metav1.StatusCause, field, words string) bool {
	for _, c := range causes {
		if strings.HasPrefix(c.Field, field) && strings.Contains(c.Message, words) {
			return true
		}
	}
	return false
}

func TestEveryInvalidGroupIsRefusedWithItsFieldAndBound(t *testing.T) {
	k := api(t)
	var cases []struct {
		Why, Name, Field, Says, Schema string
		Spec                           map[string]any
	}
	text := read(t, repository+"/api/v1alpha1/testdata/refused.yaml")
	if err := yaml.UnmarshalStrict(text, &cases); err != nil || len(cases) < 100 {
		t.Fatalf("refused.yaml has %d cases, and is read with %v; want at least 100", len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Why, func(t *testing.T) {
			if c.Name == "" {
				c.Name = "web"
			}
			raw, err := json.Marshal(c.Spec)
			must.Succeed(t, err)
			_, err = k.groups("default").Create(context.Background(), group(c.Name, parse(t, raw)), dryly)
			if c.Schema == "none" {
				if err != nil {
					t.Errorf("the table says that only the hooks refuse the group, but the API server says: %v", err)
				}
				return
			}
			if c.Schema == "" {
				c.Schema = c.Says
			}
			if causes := refusal(t, err); !names(causes, c.Field, c.Schema) {
				t.Errorf("got the causes %v; want one about %s with %q", causes, c.Field, c.Schema)
			}
		})
	}
}

func TestAnObjectThatIsNotAVmGroupIsRefused(t *testing.T) {
	k := api(t)
	const head = `{"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "metadata": {"name": "bad"}, `
	for text, says := range map[string]string{
		head + `"spec": {"cpu": 2, "memory": 4, "template": "t", "cpus": 2}}`:                   `unknown field "spec.cpus"`,
		head + `"spec": {"cpu": 2, "memory": 4, "template": "t", "update": {"maxSurg": 1}}}`:    `unknown field "spec.update.maxSurg"`,
		head + `"spec": {"cpu": "2", "memory": 4, "template": "t"}}`:                            `spec.cpu in body must be of type integer`,
		head + `"spec": {"cpu": 2.5, "memory": 4, "template": "t"}}`:                            `spec.cpu: Invalid value: "float64"`,
		head + `"spec": {"cpu": 2, "memory": 4}}`:                                               `spec.template: Required value`,
		head + `"spec": {"cpu": null, "memory": 4, "template": "t"}}`:                           `spec.cpu: Required value`,
		head + `"spec": {"cpu": 2, "memory": 4, "template": "t", "update": {"maxSurge": 1.5}}}`: `spec.update.maxSurge`,
		head + `"spec": {"cpu": 2, "memory": 4, "template": "t", "service": {"ports": [{}]}}}`:  `spec.service.ports[0].port: Required value`,
		head + `"status": {}}`: `spec: Required value`,
		strings.Replace(head, "bad", "bad.name", 1) + `"spec": {"cpu": 2, "memory": 4, "template": "t"}}`:              `metadata.name must be a DNS label of at most 57 characters`,
		strings.Replace(head, "bad", strings.Repeat("a", 58), 1) + `"spec": {"cpu": 2, "memory": 4, "template": "t"}}`: `metadata.name must be a DNS label of at most 57 characters`,
		strings.Replace(head, "v1alpha1", "v1", 1) + `"spec": {"cpu": 2, "memory": 4, "template": "t"}}`:               `no matches for kind "VmGroup"`,
	} {
		if out, err := k.KubectlWith(text, "create", "--dry-run=server", "--validate=strict", "-f", "-"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s\ngot: %s %v\nwant: %s", text, out, err, says)
		}
	}
	longest := strings.Repeat("a", 57)
	if _, err := k.groups("default").Create(context.Background(), group(longest, nil), dryly); err != nil {
		t.Error(err)
	}
}

func TestMissingFieldsGetTheirDefaults(t *testing.T) {
	k := api(t)
	for said, want := range map[string]string{
		`{}`: `{cpu: 2, memory: 4, template: t, replicas: 1, inventory: ConfigMap}`,
		`{replicas: 0, inventory: None, readiness: {}, update: {}, healing: {}, scaleIn: {}, deletion: {}, clone: {}, placement: {}, service: {ports: [{port: 80}]}, userData: {secretKeyRef: {name: boot}}}`: `
cpu: 2
memory: 4
template: t
replicas: 0
inventory: None
readiness: {check: PoweredOn, timeoutSeconds: 600}
update: {strategy: RollingUpdate, resize: Auto, maxSurge: 25%, maxUnavailable: 25%, progressDeadlineSeconds: 1800, onTemplateChange: Ignore}
healing: {action: RestartThenReplace, maxUnhealthy: 40%, maxConcurrent: 10%}
scaleIn: {order: HighestOrdinal}
deletion: {policy: Delete, shutdownTimeoutSeconds: 60}
clone: {mode: Full}
placement: {antiAffinity: None}
service: {type: Headless, ports: [{port: 80, protocol: TCP}]}
userData: {secretKeyRef: {name: boot, key: user-data}}
`,
	} {
		stored, err := k.groups("default").Create(context.Background(), group("defaults", parse(t, []byte(said))), dryly)
		must.Succeed(t, err)
		if got, want := stored.Object["spec"], parse(t, []byte(want)); !reflect.DeepEqual(got, any(want)) {
			t.Errorf("%s\nis stored as %v\n         want %v", said, got, want)
		}
	}
}
