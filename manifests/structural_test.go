package manifests_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// structural is the schema as an API server uses it.
func structural(t *testing.T) *schema.Structural {
	t.Helper()
	internal := apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd(t).Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := schema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pruned are the fields of an object that an API server would drop silently.
func pruned(t *testing.T, object map[string]any) []string {
	t.Helper()
	return pruning.PruneWithOptions(object, structural(t), true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}

func TestTheSchemaIsStructural(t *testing.T) {
	if errs := schema.ValidateStructural(field.NewPath("schema"), structural(t)); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}

func asObject(t *testing.T, v any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// The API server would prune fields that the schema lacks, so the status would never equal the answer.
func TestEveryFieldOfAStatusIsStored(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	status := v1alpha1.VmGroupStatus{
		ObservedGeneration: 1, Phase: v1alpha1.PhaseRunning,
		CurrentReplicas: 1, DesiredReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, UpdatedReplicas: 1, StandbyReplicas: 1,
		Selector: "a=b", LastMessage: "m", VCenterUUID: "u",
		Conditions: []metav1.Condition{{Type: "Ready", Status: "True", ObservedGeneration: 1, LastTransitionTime: at, Reason: "R", Message: "m"}},
		Members: []v1alpha1.Member{{
			Name: "web-0", VMName: "n", Ordinal: 1, MoRef: "vm-1", PowerState: "poweredOn", IPs: []string{"10.0.0.1"}, Zone: "z", Host: "h", Revision: "r",
			Ready: true, LastTransitionTime: at, Reason: "R", Message: "m", InstanceUUID: "i", VanishedAt: at, HeldUntil: at, Replace: v1alpha1.ReplaceHeld, BootTime: at,
		}},
		Standby:     []v1alpha1.StandbyMember{{Name: "web-3", VMName: "n", Ordinal: 1, MoRef: "vm-4", Zone: "z", Host: "h", Revision: "r", Ready: true, Reason: "R", Message: "m"}},
		Quarantined: []v1alpha1.Quarantined{{Name: "web-1-vm-2", Ordinal: 1, MoRef: "vm-2", Reason: "ScaleIn", Since: at}},
		Disks:       []v1alpha1.PersistentDisk{{Name: "data", Ordinal: 1, ID: "i", Datastore: "datastore-1", SizeGiB: 1, State: v1alpha1.DiskAttached, MoRef: "vm-1"}},
		Adopted:     []string{"vm-1"},
		Orphaned:    true,
		Update:      &v1alpha1.UpdateProgress{Target: "t", Available: 1, LastProgressTime: at},
		Canary:      &v1alpha1.CanaryProgress{Target: "t", Tried: []string{"b"}, Back: true},
	}
	for _, part := range []any{status, status.Members[0], status.Standby[0], status.Quarantined[0], status.Disks[0], *status.Update, *status.Canary} {
		for v, i := reflect.ValueOf(part), 0; i < v.NumField(); i++ {
			if v.Field(i).IsZero() {
				t.Errorf("%T: %s is not tested", part, v.Type().Field(i).Name)
			}
		}
	}
	if lost := pruned(t, asObject(t, map[string]any{"status": status})); len(lost) > 0 {
		t.Errorf("the schema doesn't have %v", lost)
	}
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
