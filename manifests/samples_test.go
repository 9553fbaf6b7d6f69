package manifests_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must.Succeed(t, err)
	return content
}

// valid reads a VmGroup that has no unknown key, loses none of its keys, and is within its bounds.
func valid(t *testing.T, raw []byte) v1alpha1.VmGroup {
	t.Helper()
	group := strict[v1alpha1.VmGroup](t, raw)
	if group.APIVersion != v1alpha1.GroupVersion.String() || group.Kind != v1alpha1.Kind {
		t.Errorf("the object is a %s %s; want a %s %s", group.APIVersion, group.Kind, v1alpha1.GroupVersion, v1alpha1.Kind)
	}
	if errs := group.Validate(); len(errs) > 0 {
		t.Errorf("the group is out of its bounds: %v", errs.ToAggregate())
	}
	again, err := yaml.Marshal(group)
	must.Succeed(t, err)
	written, kept := strict[map[string]any](t, raw), strict[map[string]any](t, again)
	if a, b := said(written["spec"]), said(kept["spec"]); !reflect.DeepEqual(a, b) {
		t.Errorf("spec %v is read as %v", a, b)
	}
	if lost := pruned(t, written); len(lost) > 0 {
		t.Errorf("the schema doesn't have %v", lost)
	}
	return group
}

// said returns the value without fields that are false or 0, which a manifest can omit.
func said(value any) any {
	fields, ok := value.(map[string]any)
	if list, is := value.([]any); is {
		for i := range list {
			list[i] = said(list[i])
		}
	}
	if !ok {
		return value
	}
	left := map[string]any{}
	for name, v := range fields {
		if v != false && v != float64(0) {
			left[name] = said(v)
		}
	}
	return left
}

func sampleGroups(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("samples/vmgroup*.yaml")
	if err != nil || len(paths) < 2 {
		t.Fatalf("samples %v: %v", paths, err)
	}
	return paths
}

func TestTheSampleGroupsAreValid(t *testing.T) {
	for _, path := range sampleGroups(t) {
		t.Run(path, func(t *testing.T) { valid(t, read(t, path)) })
	}
}

func TestTheSampleGroupsCanBeAppliedTogether(t *testing.T) {
	names := map[string]string{}
	for _, path := range sampleGroups(t) {
		group := valid(t, read(t, path))
		if other, ok := names[group.Name]; ok {
			t.Errorf("%s and %s are both the group %s", path, other, group.Name)
		}
		names[group.Name] = path
	}
}

func TestTheReadmeNamesEverySample(t *testing.T) {
	readme := string(read(t, "README.md"))
	for _, path := range sampleGroups(t) {
		if !strings.Contains(readme, "`"+filepath.Base(path)+"`") {
			t.Errorf("the README doesn't name %s", path)
		}
	}
}

// instead are the fields that other fields of the full sample exclude, with the comment in which the sample shows them.
var instead = map[string]string{
	"placement.pool":                "# pool: ",
	"userData.configMapKeyRef.name": "# configMapKeyRef: {name: ",
	"userData.configMapKeyRef.key":  ", key: ",
	"hardware.memoryReservationMiB": "# memoryReservationMiB: ",
	"hardware.memoryLimitMiB":       "# memoryLimitMiB: ",
	"customizationSpec":             "# customizationSpec: ",
	"readiness.tcpSocket.port":      "# tcpSocket: {port: ",
}

func TestTheFullSampleShowsEveryField(t *testing.T) {
	var shown, all []string
	full := read(t, "samples/vmgroup-full.yaml")
	written("", strict[map[string]any](t, full)["spec"], func(path string) {
		for _, values := range []string{"customAttributes", "extraConfig", "service.annotations"} {
			if strings.HasPrefix(path, values+".") {
				path = values + "[]"
			}
		}
		shown = append(shown, path)
	})
	for path := range specFields(t) {
		all = append(all, path)
	}
	for path, comment := range instead {
		if strings.Contains(string(full), comment) {
			shown = append(shown, path)
		}
	}
	for _, path := range all {
		if !slices.Contains(shown, path) {
			t.Errorf("the sample doesn't show spec.%s", path)
		}
	}
	for _, path := range shown {
		if !slices.Contains(all, path) {
			t.Errorf("the sample shows spec.%s, which doesn't exist", path)
		}
	}
}

// written calls f for each field of a value, with its path; those of a list's items are "list[].field".
func written(path string, value any, f func(string)) {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			written(strings.TrimPrefix(path+"."+name, "."), field, f)
		}
	case []any:
		for _, item := range v {
			written(path+"[]", item, f)
		}
	default:
		f(path)
	}
}

func TestTheSampleSecretHasTheKeysThatThePodsRead(t *testing.T) {
	secret := strict[corev1.Secret](t, read(t, "samples/vc-creds.yaml"))
	if secret.Name != "vc-creds" || secret.Namespace != "vmgroup-system" {
		t.Errorf("the Secret is %s/%s", secret.Namespace, secret.Name)
	}
	if got := slices.Sorted(maps.Keys(secret.StringData)); !slices.Equal(got, []string{"VC_HOST", "VC_PASS", "VC_USER"}) {
		t.Errorf("keys: %v; want %v", got, []string{"VC_HOST", "VC_PASS", "VC_USER"})
	}
}

func TestTheSampleUserDataSuitsItsGroupAndCloudInit(t *testing.T) {
	secret := strict[corev1.Secret](t, read(t, "samples/user-data.yaml"))
	group := valid(t, read(t, "samples/vmgroup-user-data.yaml"))
	ref := group.Spec.UserData.SecretKeyRef
	if secret.Namespace != group.Namespace || secret.Name != ref.Name {
		t.Errorf("the group names %s/%s, the Secret is %s/%s", group.Namespace, ref.Name, secret.Namespace, secret.Name)
	}
	cloudConfig(t, secret.StringData[ref.Key])
}

// cloudConfig checks that cloud-init would render a text as a template, and read the result. Both words must be at the beginning of
// a line, and the first one in the first line only.
func cloudConfig(t *testing.T, text string) {
	t.Helper()
	rest, isTemplate := strings.CutPrefix(text, "## template: jinja\n")
	if !isTemplate || !strings.HasPrefix(rest, "#cloud-config\n") {
		t.Fatalf("the text begins with %.60q", text)
	}
	if !strings.Contains(rest, "{{ ds.meta_data.ordinal }}") {
		t.Error("the text doesn't use a member's metadata")
	}
	keys := strict[map[string]any](t, []byte(strings.NewReplacer("{{", "", "}}", "").Replace(rest)))
	if len(keys) == 0 {
		t.Error("the text has no settings")
	}
}

// hookRequest is what Metacontroller sends to a v2 hook.
type hookRequest struct {
	Controller json.RawMessage           `json:"controller"`
	Parent     json.RawMessage           `json:"parent"`
	Children   map[string]map[string]any `json:"children"`
	Related    map[string]map[string]any `json:"related"`
	Finalizing bool                      `json:"finalizing"`
}

func TestTheSampleHookRequestsAreForOneGroup(t *testing.T) {
	sync := strict[hookRequest](t, read(t, "samples/hooks/sync.json"))
	finalize := strict[hookRequest](t, read(t, "samples/hooks/finalize.json"))
	if sync.Finalizing || !finalize.Finalizing {
		t.Error("finalizing contradicts the file name")
	}
	a, b := valid(t, sync.Parent), valid(t, finalize.Parent)
	if a.DeletionTimestamp != nil || b.DeletionTimestamp == nil {
		t.Error("deletionTimestamp contradicts the file name")
	}
	if a.UID == "" || a.UID != b.UID || a.Name != b.Name || a.Namespace != b.Namespace || !reflect.DeepEqual(a.Spec, b.Spec) {
		t.Error("the requests are for different groups")
	}
	sample := valid(t, read(t, "samples/vmgroup.yaml"))
	if a.Name != sample.Name || a.Namespace != sample.Namespace || !reflect.DeepEqual(a.Spec, sample.Spec) {
		t.Error("the requests are not for the group in samples/vmgroup.yaml")
	}
	// Every listed kind of child is present, empty or not, as "Kind.version".
	kinds := len(decode[compositeController](t, build(t, "root"), "CompositeController/vmgroup").Spec.ChildResources)
	for name, request := range map[string]hookRequest{"sync": sync, "finalize": finalize} {
		if _, ok := request.Children["ConfigMap.v1"]; !ok || len(request.Children) != kinds {
			t.Errorf("%s: children %v, but the controller lists %d kinds", name, request.Children, kinds)
		}
	}
}
