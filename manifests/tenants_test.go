package manifests_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// unbounded are the fields that no VmGroupLimit bounds. None of them names an object of vCenter that the server takes from elsewhere,
// nor says how many VMs there are or how large they are.
var unbounded = []string{
	"inventory", "paused", "update", "healing", "scaleIn", "readiness", "service", // these fields set how members are updated and healed, and who is told about them
	"deletion.shutdownTimeoutSeconds", "deletion.holdTimeoutSeconds", // a held member counts as a member
	"replace[]",                // members of the group
	"adopt[]",                  // the server's --adopt-from bounds it
	"clone",                    // how the template is cloned
	"userData",                 // a Secret or ConfigMap of the group's namespace
	"rootDisk", "disks[].name", // of the member
	"disks[].sizeGiB", "disks[].provisioning", "disks[].persistent", "disks[].retention", // docs/tenants.md says that the space is bounded in vCenter
	"networks[].dhcp", "networks[].ipv4", "networks[].ipv6", "networks[].nameservers[]", "networks[].searchDomains[]", // what the guest reads
	// of the member; docs/tenants.md says that reservations and shares are bounded in vCenter
	"hardware.version", "hardware.coresPerSocket", "hardware.cpuHotAdd", "hardware.memoryHotAdd", "hardware.cpuReservationMHz", "hardware.cpuLimitMHz", "hardware.cpuShares", "hardware.reserveAllMemory", "hardware.memoryReservationMiB", "hardware.memoryLimitMiB", "hardware.memoryShares", "hardware.secureBoot", "hardware.vtpm", "hardware.bootDelaySeconds", "hardware.bootFirst",
	"extraConfig[]", // the server's --extra-config bounds it
	"placement.antiAffinity", "placement.hostGroup.rule",
	"tags[].create", // the limit bounds the tag that is created
}

// A field that says where VMs come from or go to, or how many or how large they are, must be bounded too: it would be a way around the limit.
func TestALimitLooksAtEveryFieldOrSaysThatItDoesNot(t *testing.T) {
	objects := build(t, "tenants")
	policy := decode[admissionv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy/vmgroup-limits")
	variables := map[string]string{}
	for _, v := range policy.Spec.Variables {
		variables[v.Name] = v.Expression
	}
	bounded := map[string]string{} // the expression that the policy checks, by the path that the refusal names
	key := regexp.MustCompile(`'([a-z][^']+)': `)
	for _, name := range []string{"number", "value"} {
		expression, bounds := variables[name+"s"], variables[name+"Bounds"]
		looks := key.Split(expression, -1)[1:]
		for i, m := range key.FindAllStringSubmatch(expression, -1) {
			if !strings.Contains(bounds, "['"+m[1]+"', ") {
				t.Errorf("the policy looks at %s, and nothing bounds it", m[1])
			}
			for field := range strings.SplitSeq(m[1], " + ") {
				bounded[strings.TrimPrefix(field, "spec.")] += " " + looks[i]
			}
		}
	}
	looksAt := func(path string) bool {
		parent, name, _ := strings.Cut(path, "[].")
		expressions := bounded[path] + bounded[strings.TrimSuffix(path, "[]")]
		if name != "" {
			expressions += bounded[parent]
		}
		return regexp.MustCompile(`\.\??` + strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]") + `\b`).MatchString(expressions)
	}
	found := map[string]bool{}
	for path, schema := range specFields(t) {
		excused := slices.IndexFunc(unbounded, func(p string) bool { return path == p || strings.HasPrefix(path, p+".") })
		switch looks := looksAt(path); {
		case !looks && excused < 0:
			t.Errorf("no VmGroupLimit bounds spec.%s (%s): add it to charts/vmgroup/files/tenants/groups.yaml and docs/tenants.md, or to unbounded here", path, schema.Type)
		case looks && excused >= 0:
			t.Errorf("spec.%s is bounded, although unbounded lists it", path)
		case excused >= 0:
			found[unbounded[excused]] = true
		}
	}
	for _, path := range unbounded {
		if !found[path] {
			t.Errorf("there is no spec.%s", path)
		}
	}
}

func TestEveryFieldOfALimitBoundsSomethingAndIsInTheDocument(t *testing.T) {
	objects := build(t, "tenants")
	limit := decode[apiextensionsv1.CustomResourceDefinition](t, objects, "CustomResourceDefinition/vmgrouplimits.vm.codeconnect.vmworld.com")
	policy := decode[admissionv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy/vmgroup-limits")
	var bounds string
	for _, v := range policy.Spec.Variables {
		if strings.HasSuffix(v.Name, "Bounds") {
			bounds += v.Expression
		}
	}
	page := string(read(t, "../docs/tenants.md"))
	fields := limit.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	for name := range fields {
		if !strings.Contains(bounds, ", '"+name+"']") {
			t.Errorf("the policy doesn't use %s", name)
		}
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/tenants.md doesn't explain %s", name)
		}
	}
	for _, m := range regexp.MustCompile(`'(\w+)'\]`).FindAllStringSubmatch(bounds, -1) {
		if _, known := fields[m[1]]; !known {
			t.Errorf("the policy uses %s, which a VmGroupLimit doesn't have", m[1])
		}
	}
	if len(fields) < 10 {
		t.Errorf("only %d fields", len(fields))
	}
	sample := read(t, "samples/tenant.yaml")
	example, _, _ := strings.Cut(string(sample), "---\n")
	set := strict[struct{ Spec map[string]any }](t, regexp.MustCompile(`(?m)^(apiVersion|kind|metadata):.*\n`).ReplaceAll([]byte(example), nil)).Spec
	for name := range fields {
		if _, there := set[name]; !there {
			t.Errorf("samples/tenant.yaml leaves %s to the tenant", name)
		}
	}
	if indented := regexp.MustCompile(`(?m)^`).ReplaceAllString(strings.TrimSpace(string(sample)), "   "); !strings.Contains(page, "```yaml\n"+indented+"\n   ```") {
		t.Error("docs/tenants.md doesn't show samples/tenant.yaml")
	}
}

// The API server drops a messageExpression whose text is too long or has a newline, and shows the expression instead.
func TestEveryRefusalHasAPlainMessageAsWell(t *testing.T) {
	seen := 0
	for tree := range trees {
		objects := build(t, tree)
		for id := range objects {
			if !strings.HasPrefix(id, "ValidatingAdmissionPolicy/") {
				continue
			}
			for _, v := range decode[admissionv1.ValidatingAdmissionPolicy](t, objects, id).Spec.Validations {
				if seen++; v.Message == "" || strings.Contains(v.Message, "\n") {
					t.Errorf("%s, %s: the message is %q", tree, id, v.Message)
				}
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d validations", seen)
	}
}
