package manifests_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// In addition to its bounds and its place in the full sample, a new field of the spec needs a generated schema, a decision whether a
// change of the field replaces members, and a line in docs/fields.md.

// Without make generate, this test fails: an API server would prune a field of the status that the schema lacks, so the status would
// never equal the answer.
func TestTheSchemaHasEveryFieldOfTheTypes(t *testing.T) {
	for part, of := range map[string]reflect.Type{"spec": reflect.TypeFor[v1alpha1.VmGroupSpec](), "status": reflect.TypeFor[v1alpha1.VmGroupStatus]()} {
		schema, typed := fieldsOf(t, part), map[string]bool{}
		typeFields("", of, typed)
		for path := range typed {
			if schema[path] == nil {
				t.Errorf("the CRD has no %s.%s: run make generate", part, path)
			}
		}
		for path := range schema {
			if !typed[path] {
				t.Errorf("the types don't have %s.%s of the CRD: run make generate", part, path)
			}
		}
	}
}

// typeFields collects the paths of a type's values, in the form of walk.
func typeFields(path string, of reflect.Type, into map[string]bool) {
	ours := of.PkgPath() == reflect.TypeFor[v1alpha1.VmGroupSpec]().PkgPath() || of == reflect.TypeFor[metav1.Condition]()
	switch {
	case of.Kind() == reflect.Pointer:
		typeFields(path, of.Elem(), into)
	case of.Kind() == reflect.Slice || of.Kind() == reflect.Map:
		typeFields(path+"[]", of.Elem(), into)
	case of.Kind() == reflect.Struct && ours:
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			typeFields(strings.TrimPrefix(path+"."+name, "."), of.Field(i).Type, into)
		}
	default:
		into[path] = true
	}
}

// changedInPlace are the fields whose change replaces no member. All others must enter the revision, otherwise a change
// would reach only new members.
var changedInPlace = []string{
	"cpu", "memory", "replicas", "standby", "inventory", "paused", "adopt[]", "replace[]", "tags[]",
	"readiness", "update", "healing", "scaleIn", "deletion", "service",
	"placement.antiAffinity", "placement.hostGroup",
	"placement.datacenter", "placement.folder", // cannot change while there are members
	"hardware.cpuReservationMHz", "hardware.cpuLimitMHz", "hardware.cpuShares",
	"hardware.memoryReservationMiB", "hardware.memoryLimitMiB", "hardware.memoryShares", "hardware.reserveAllMemory",
	"rootDisk", "disks[]", // the stamp has a member's own disks
	"networks[].ipv4.ranges[]", "networks[].ipv6.ranges[]", "networks[].ipv4.additionalRanges[]", "networks[].ipv6.additionalRanges[]", // the stamp has a member's own addresses
	"userData", // the revision has the digest of the user data's text
}

func TestEveryFieldThatOnlyANewCloneCanChangeEntersTheRevision(t *testing.T) {
	for path, schema := range specFields(t) {
		if path == "customAttributes[]" || path == "extraConfig[]" || path == "service.annotations[]" {
			continue // maps, which groupWith does not fill
		}
		inPlace := slices.ContainsFunc(changedInPlace, func(p string) bool { return path == p || strings.HasPrefix(path, p+".") })
		revisions := map[string]bool{}
		for _, value := range differentValues(t, path, schema) {
			revisions[plan.Revision(&groupWith(t, path, value).Spec)] = true
		}
		switch entered := len(revisions) > 1; {
		case !entered && !inPlace:
			t.Errorf("a change of spec.%s replaces no member: enter it in RevisionWith (sync/plan/revision.go), "+
				"or, if it is changed on members that exist, add it to changedInPlace here", path)
		case entered && inPlace:
			t.Errorf("a change of spec.%s replaces members, although changedInPlace lists it", path)
		}
	}
}

// differentValues are valid values of a field.
func differentValues(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) (values []any) {
	t.Helper()
	switch {
	case schema.XIntOrString:
		ok, _ := intsOrStrings(path)
		return ok[:2]
	case schema.Type == "integer":
		return []any{1, 2}
	case schema.Type == "boolean":
		return []any{false, true}
	case len(schema.Enum) > 0:
		for _, word := range enum(t, schema) {
			values = append(values, word)
		}
		return values
	}
	return []any{"10.0.0.7", "10.0.0.8"}
}

func TestEveryFieldIsInTheDocuments(t *testing.T) {
	page := string(read(t, "../docs/fields.md"))
	_, status, _ := strings.Cut(page, "\n## status\n")
	for path := range fieldsOf(t, "status") {
		name, _, _ := strings.Cut(path, ".")
		if name = strings.TrimRight(name, "[]"); !regexp.MustCompile("`" + name + "[`\\[]").MatchString(status) {
			t.Errorf("docs/fields.md does not explain status.%s", name)
		}
	}
	spec, _, _ := strings.Cut(page, "\n### What a change does")
	for path := range specFields(t) {
		first, _, _ := strings.Cut(path, ".")
		_, section, found := strings.Cut(spec, "\n### spec."+first+"\n")
		if !found {
			_, section, _ = strings.Cut(spec, "\n## spec\n")
		}
		section, _, _ = strings.Cut(section, "\n### ")
		name := strings.TrimRight(path[strings.LastIndex(path, ".")+1:], "[]")
		if !regexp.MustCompile("`[^`\n]*\\b" + name + "\\b[^`\n]*`").MatchString(section) {
			t.Errorf("docs/fields.md does not explain spec.%s", path)
		}
	}
}
