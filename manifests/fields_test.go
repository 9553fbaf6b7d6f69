package manifests_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// walk calls f for each part of a schema, with its path: "a.b", and "a[]" for the items of a list or the values of a map.
func walk(path string, s *apiextensionsv1.JSONSchemaProps, f func(string, *apiextensionsv1.JSONSchemaProps)) {
	f(path, s)
	for name, property := range s.Properties {
		walk(strings.TrimPrefix(path+"."+name, "."), &property, f)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(path+"[]", s.Items.Schema, f)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(path+"[]", s.AdditionalProperties.Schema, f)
	}
}

// specFields are the fields of the spec that contain a value, by path.
func specFields(t *testing.T) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	return fieldsOf(t, "spec")
}

// fieldsOf are the fields of the spec or the status that contain a value, by path.
func fieldsOf(t *testing.T, part string) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	fields := map[string]*apiextensionsv1.JSONSchemaProps{}
	schema := crd(t).Schema.OpenAPIV3Schema.Properties[part]
	walk("", &schema, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if s.Type != "object" && s.Type != "array" {
			fields[path] = s
		}
	})
	return fields
}

// The planner has defaults in Go for fields that are not set: an API server must set the same ones. A field without a default here
// is off, 0 or empty.
func TestTheSchemaHasTheDefaultsOfThePlanner(t *testing.T) {
	defaults := map[string]any{
		"replicas":                        v1alpha1.DefaultReplicas,
		"inventory":                       v1alpha1.InventoryConfigMap,
		"readiness.check":                 v1alpha1.ReadyPoweredOn,
		"readiness.timeoutSeconds":        v1alpha1.DefaultReadinessTimeout,
		"update.strategy":                 v1alpha1.UpdateRolling,
		"update.resize":                   v1alpha1.ResizeAuto,
		"update.maxSurge":                 v1alpha1.DefaultMaxSurge,
		"update.maxUnavailable":           v1alpha1.DefaultMaxUnavailable,
		"update.progressDeadlineSeconds":  v1alpha1.DefaultProgressDeadline,
		"update.onTemplateChange":         v1alpha1.TemplateChangeIgnore,
		"healing.action":                  v1alpha1.HealRestartThenReplace,
		"healing.maxUnhealthy":            v1alpha1.DefaultMaxUnhealthy,
		"healing.maxConcurrent":           v1alpha1.DefaultMaxConcurrent,
		"scaleIn.order":                   v1alpha1.ScaleInHighestOrdinal,
		"deletion.policy":                 v1alpha1.DeletionDelete,
		"deletion.shutdownTimeoutSeconds": v1alpha1.DefaultShutdownTimeout,
		"clone.mode":                      v1alpha1.CloneFull,
		"disks[].provisioning":            v1alpha1.ProvisioningThin,
		"disks[].retention.whenDeleted":   v1alpha1.RetentionRetain,
		"disks[].retention.whenScaled":    v1alpha1.RetentionRetain,
		"placement.antiAffinity":          v1alpha1.AntiAffinityNone,
		"placement.hostGroup.rule":        v1alpha1.HostRulePreferred,
		"userData.secretKeyRef.key":       v1alpha1.DefaultUserDataKey,
		"userData.configMapKeyRef.key":    v1alpha1.DefaultUserDataKey,
		"service.type":                    v1alpha1.ServiceHeadless,
		"service.ports[].protocol":        "TCP",
		"update.windows[].timeZone":       v1alpha1.DefaultTimeZone,
	}
	for path, schema := range specFields(t) {
		var want string
		if value, ok := defaults[path]; ok {
			raw, err := json.Marshal(value)
			must.Succeed(t, err)
			want = string(raw)
		}
		var got string
		if schema.Default != nil {
			got = string(schema.Default.Raw)
		}
		if got != want {
			t.Errorf("the default of %s is %s, want %s", path, got, want)
		}
		delete(defaults, path)
		if name := path[strings.LastIndexByte(path, '.')+1:]; want != "" && plan.Defaults[name] != strings.Trim(want, `"`) {
			t.Errorf("plan.Defaults[%q] is %q, want %s", name, plan.Defaults[name], want)
		}
	}
	for path := range defaults {
		t.Errorf("the field %s doesn't exist", path)
	}
}

func TestEveryFieldIsExplainedWithItsBoundsAndDefault(t *testing.T) {
	for path, schema := range specFields(t) {
		text := schema.Description
		mentions := func(what string) {
			if !strings.Contains(text, what) {
				t.Errorf("%s: no %q in: %s", path, what, text)
			}
		}
		if strings.HasSuffix(path, "[]") {
			continue // the description of the list explains its items
		}
		if text == "" {
			t.Errorf("%s is not explained", path)
		}
		if strings.HasSuffix(path, "Seconds") {
			mentions("seconds")
		}
		if schema.Minimum != nil && schema.Maximum != nil {
			mentions(fmt.Sprintf("%.0f", *schema.Minimum))
			mentions(fmt.Sprintf("%.0f", *schema.Maximum))
		}
		for _, word := range enum(t, schema) {
			mentions(word)
		}
		if schema.Default != nil {
			mentions("default")
			mentions(strings.Trim(string(schema.Default.Raw), `"`))
		}
		if schema.XIntOrString {
			ok, _ := intsOrStrings(path)
			mentions(fmt.Sprint(ok[2]))
			mentions(fmt.Sprint(ok[3]))
		}
	}
}

func enum(t *testing.T, schema *apiextensionsv1.JSONSchemaProps) (words []string) {
	t.Helper()
	for _, raw := range schema.Enum {
		var word string
		must.Succeed(t, json.Unmarshal(raw.Raw, &word))
		words = append(words, word)
	}
	return words
}

// mostItems is how many items a list or map can have, if not MaxListed.
var mostItems = map[string]int64{
	"update.windows":                   v1alpha1.MaxWindows,
	"update.windows[].days":            int64(len(v1alpha1.Weekdays)),
	"placement.hostGroup.names":        v1alpha1.MaxHostGroups,
	"placement.zones":                  v1alpha1.MaxZones,
	"disks":                            v1alpha1.MaxDisks,
	"networks":                         v1alpha1.MaxNetworks,
	"networks[].ipv4.ranges":           v1alpha1.MaxRanges,
	"networks[].ipv6.ranges":           v1alpha1.MaxRanges,
	"networks[].ipv4.additionalRanges": v1alpha1.MaxAdditionalRanges,
	"networks[].ipv6.additionalRanges": v1alpha1.MaxAdditionalRanges,
	"networks[].nameservers":           v1alpha1.MaxNameservers,
	"networks[].searchDomains":         v1alpha1.MaxNameservers,
	"tags":                             v1alpha1.MaxMarks,
	"customAttributes":                 v1alpha1.MaxMarks,
	"extraConfig":                      v1alpha1.MaxMarks,
	"hardware.pciDevices":              v1alpha1.MaxPCIDevices,
	"service.ports":                    v1alpha1.MaxServicePorts,
	"service.annotations":              v1alpha1.MaxServiceAnnotations,

	"readiness.httpGet.httpHeaders": v1alpha1.MaxProbeHeaders,
}

// longest has one of the longest accepted texts for each text field.
var longest = map[string]string{
	"template":                           strings.Repeat("ü", v1alpha1.MaxTemplateLength),
	"adopt[]":                            "/" + strings.Repeat("ü", v1alpha1.MaxAdoptLength-1),
	"replace[].moRef":                    strings.Repeat("v", v1alpha1.MaxMoRefLength),
	"replace[].name":                     group57 + "-99999",
	"scaleIn.protected[]":                group57 + "-99999",
	"scaleIn.remove[]":                   group57 + "-99999",
	"update.windows[].start":             "23:59",
	"update.windows[].timeZone":          "", // no time zone has a name of the greatest length
	"clone.snapshot":                     strings.Repeat("ü", v1alpha1.MaxInventoryPath),
	"placement.datacenter":               strings.Repeat("ü", v1alpha1.MaxInventoryPath),
	"placement.pool":                     strings.Repeat("ü", v1alpha1.MaxInventoryPath),
	"placement.datastore":                strings.Repeat("ü", v1alpha1.MaxInventoryPath),
	"placement.storagePolicy":            strings.Repeat("ü", v1alpha1.MaxVimName),
	"placement.folder":                   strings.Repeat("ü/", v1alpha1.MaxInventoryPath/2-1) + "üü",
	"placement.zones[]":                  strings.Repeat("ü", v1alpha1.MaxInventoryPath),
	"placement.hostGroup.names[]":        strings.Repeat("ü", v1alpha1.MaxVimName),
	"disks[].name":                       strings.Repeat("d", v1alpha1.MaxDiskName),
	"disks[].datastore":                  strings.Repeat("ü", v1alpha1.MaxInventoryPath),
	"disks[].storagePolicy":              strings.Repeat("ü", v1alpha1.MaxVimName),
	"networks[].network":                 strings.Repeat("ü", v1alpha1.MaxInventoryPath),
	"networks[].ipv4.ranges[]":           strings.Repeat(" ", v1alpha1.MaxRange-len("10.0.0.7")) + "10.0.0.7",
	"networks[].ipv4.gateway":            "",
	"networks[].ipv4.additionalRanges[]": strings.Repeat(" ", v1alpha1.MaxRange-len("10.0.0.8")) + "10.0.0.8",
	"networks[].ipv6.additionalRanges[]": "2001:db8:0000:0000:0000:0000:192.168.100.100  -  2001:db8:0000:0000:0000:0000:192.168.100.200",
	"networks[].ipv6.ranges[]":           "2001:db8:0000:0000:0000:0000:192.168.100.100  -  2001:db8:0000:0000:0000:0000:192.168.100.200",
	"networks[].ipv6.gateway":            "2001:0db8:0000:0000:0000:0000:192.168.100.201",
	"networks[].nameservers[]":           "2001:0db8:0000:0000:0000:0000:192.168.100.201",
	"networks[].searchDomains[]":         strings.Repeat("d.", v1alpha1.MaxDomain/2) + "d",
	"userData.secretKeyRef.name":         strings.Repeat("s", v1alpha1.MaxDomain),
	"userData.secretKeyRef.key":          strings.Repeat("k", v1alpha1.MaxDomain),
	"userData.configMapKeyRef.name":      strings.Repeat("c", v1alpha1.MaxDomain),
	"userData.configMapKeyRef.key":       strings.Repeat("k", v1alpha1.MaxDomain),
	"hardware.pciDevices[]":              strings.Repeat("ü", v1alpha1.MaxVGPUProfile),
	"customizationSpec":                  strings.Repeat("ü", v1alpha1.MaxVimName),
	"readiness.httpGet.path":             "/" + strings.Repeat("~", v1alpha1.MaxProbePath-1),

	"readiness.httpGet.httpHeaders[].name":  strings.Repeat("h", v1alpha1.MaxHeaderName),
	"readiness.httpGet.httpHeaders[].value": strings.Repeat(" ", v1alpha1.MaxHeaderValue),
	"tags[].category":                       strings.Repeat("ü", v1alpha1.MaxVimName),
	"tags[].name":                           strings.Repeat("ü", v1alpha1.MaxVimName),
	"service.ports[].name":                  strings.Repeat("p", v1alpha1.MaxPortName),
	"service.ports[].appProtocol":           strings.Repeat("p", v1alpha1.MaxDomain-64) + "/" + strings.Repeat("p", 63),
}

// The schema and Validate accept and refuse the same values: each bound is tested from both sides.
func TestTheSchemaAndTheHooksHaveTheSameBounds(t *testing.T) {
	spec := crd(t).Schema.OpenAPIV3Schema.Properties["spec"]
	walk("", &spec, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		at := strings.ReplaceAll("spec."+path, "[]", "[0]")
		try := func(value any, takes bool) {
			t.Helper()
			errs := groupWith(t, path, value).Validate()
			refused := false
			for _, err := range errs {
				refused = refused || err.Field == at
			}
			if refused == takes {
				t.Errorf("%s: %.40v: accepted by the schema: %t; Validate: %v", path, value, takes, errs)
			}
		}
		switch {
		case s.XIntOrString:
			sameWords(t, path, s)
		case s.Type == "object" && s.AdditionalProperties != nil:
			if most, ok := mostItems[path]; !ok || s.MaxProperties == nil || *s.MaxProperties != most {
				t.Errorf("%s can have %v values, want %d", path, s.MaxProperties, most)
			}
		case s.Type == "object", s.Type == "boolean":
		case s.Type == "array":
			most, ok := mostItems[path]
			if !ok {
				most = v1alpha1.MaxListed
			}
			if s.MaxItems == nil || *s.MaxItems != most {
				t.Errorf("%s can have %v items, want %d", path, s.MaxItems, most)
			}
		case s.Type == "integer":
			most := int64(*s.Maximum)
			if path == "networks[].ipv4.prefixLength" {
				most = 32 // a rule states the bound
			}
			try(int64(*s.Minimum), true)
			try(int64(*s.Minimum)-1, false)
			try(most, true)
			try(most+1, false)
		case len(s.Enum) > 0:
			for _, word := range enum(t, s) {
				try(word, true)
			}
			try("Nonsense", false)
		case s.Type == "string" && s.MaxLength != nil:
			text, ok := longest[path]
			if !ok {
				t.Errorf("%s: add its longest text to longest, and its bound to Validate", path)
			}
			if text != "" {
				if n := int64(len([]rune(text))); n != *s.MaxLength {
					t.Errorf("%s can have %d characters, want %d", path, *s.MaxLength, n)
				}
				try(text, true)
				try(text+"0", false)
			}
			try("", s.MinLength == nil || *s.MinLength == 0)
		case path == "customAttributes[]", path == "extraConfig[]", path == "service.annotations[]": // the map's rules bound its values
		default:
			t.Errorf("%s: no value to test it with", path)
		}
	})
}

// group57 is a group's name of the greatest length.
var group57 = strings.Repeat("g", v1alpha1.MaxNameLength)

// sameWords checks that Validate refuses a value in the words of the schema's rule, which cannot run here.
func sameWords(t *testing.T, path string, s *apiextensionsv1.JSONSchemaProps) {
	ok, refused := intsOrStrings(path)
	t.Helper()
	if len(s.XValidations) != 1 {
		t.Fatalf("%s has %d rules; want 1", path, len(s.XValidations))
	}
	for _, value := range refused {
		errs := groupWith(t, path, value).Validate()
		if len(errs) != 1 || errs[0].Field != "spec."+path || errs[0].Detail != s.XValidations[0].Message {
			t.Errorf("%s: %v: got %v, want the rule's %s", path, value, errs, s.XValidations[0].Message)
		}
	}
	for _, value := range ok {
		if errs := groupWith(t, path, value).Validate(); len(errs) > 0 {
			t.Errorf("%s: %v; want none", path, errs)
		}
	}
}

// intsOrStrings are the accepted values (the third and fourth are the largest) and the refused values of a field that takes numbers and
// words: shares of CPU or memory, or a number or percentage of members.
func intsOrStrings(path string) (ok, refused []any) {
	if strings.HasPrefix(path, "hardware.") {
		return []any{1, "Low", v1alpha1.MaxShares, "High", "Normal"}, []any{-1, 0, v1alpha1.MaxShares + 1, "Custom", "high", "5", ""}
	}
	return []any{1, "10%", v1alpha1.MaxReplicas, "100%", "1%", "99%"}, []any{-1, v1alpha1.MaxReplicas + 1, "101%", "abc", "5", "-1%", "1.5%", ""}
}

// besides are the fields that a field requires, by the field's path.
var besides = map[string]map[string]any{
	"":                         {"cpu": 1, "memory": 1, "template": "t"},
	"update.windows[]":         {"start": "22:00", "durationSeconds": 3600},
	"placement.hostGroup":      {"names": []any{"a"}},
	"networks[]":               {"network": "lab"},
	"networks[].ipv4":          {"ranges": []any{"10.0.0.7"}, "prefixLength": 24},
	"networks[].ipv6":          {"ranges": []any{"2001:db8::7"}, "prefixLength": 64},
	"userData.secretKeyRef":    {"name": "s"},
	"userData.configMapKeyRef": {"name": "c"},
	"tags[]":                   {"category": "c", "name": "n"},
	"service.ports[]":          {"port": 80},
}

// groupWith is a group that is valid except for the value at that path of its spec.
func groupWith(t *testing.T, path string, value any) *v1alpha1.VmGroup {
	t.Helper()
	for path != "" {
		parent, name := "", path
		if dot := strings.LastIndex(path, "."); dot >= 0 {
			parent, name = path[:dot], path[dot+1:]
		}
		list, isItem := strings.CutSuffix(name, "[]")
		if isItem {
			value = []any{value}
		}
		object := maps.Clone(besides[parent])
		if object == nil {
			object = map[string]any{}
		}
		object[list] = value
		value, path = object, parent
	}
	spec := value
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": group57}, "spec": spec})
	must.Succeed(t, err)
	group := strict[v1alpha1.VmGroup](t, raw)
	return &group
}
