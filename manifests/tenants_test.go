package manifests_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// open are the fields that no VmGroupLimit bounds, with what bounds them otherwise, as docs/tenants.md says.
var open = []struct{ why, fields string }{
	{"nothing: they concern the group's own members", "inventory paused replace[].moRef replace[].name disks[].name disks[].persistent disks[].provisioning " +
		"disks[].retention.whenDeleted disks[].retention.whenScaled deletion.holdTimeoutSeconds deletion.shutdownTimeoutSeconds " +
		"healing.action healing.maxConcurrent healing.maxUnhealthy healing.replaceVanishedAfterSeconds placement.antiAffinity placement.hostGroup.rule " +
		"scaleIn.order scaleIn.protected[] scaleIn.remove[] " +
		"update.canary update.maxAgeSeconds update.maxSurge update.maxUnavailable update.minReadySeconds update.onTemplateChange update.paused " +
		"update.progressDeadlineSeconds update.resize update.strategy update.windows[].days[] update.windows[].durationSeconds update.windows[].start update.windows[].timeZone " +
		"hardware.bootDelaySeconds hardware.bootFirst hardware.coresPerSocket hardware.cpuHotAdd hardware.memoryHotAdd hardware.secureBoot hardware.version hardware.vtpm"},
	{"the resource pool, in vCenter", "hardware.cpuLimitMHz hardware.cpuReservationMHz hardware.cpuShares hardware.memoryLimitMiB hardware.memoryReservationMiB hardware.memoryShares hardware.reserveAllMemory"},
	{"the datastore, in vCenter", "rootDisk.sizeGiB disks[].sizeGiB"},
	{"the server's `--adopt-from`", "adopt[]"},
	{"the server's `--extra-config`", "extraConfig[]"},
	{"the server's `--probe-networks`: the tenant chooses port, path and headers", "readiness.check readiness.failureThreshold readiness.httpGet.httpHeaders[].name readiness.httpGet.httpHeaders[].value readiness.httpGet.path readiness.httpGet.port " +
		"readiness.httpGet.scheme readiness.initialDelaySeconds readiness.periodSeconds readiness.probeTimeoutSeconds readiness.successThreshold readiness.tcpSocket.port readiness.timeoutSeconds"},
	{"the namespace: a Secret or ConfigMap of it", "userData.configMapKeyRef.key userData.configMapKeyRef.name userData.secretKeyRef.key userData.secretKeyRef.name"},
	{"the tags that the limit allows", "tags[].create"},
	{"the template: a tenant can clone any of its snapshots", "clone.mode clone.snapshot"},
	{"nothing: the guest is told so, and it could take another address of its network, or another server, by itself. Give each tenant networks of its own", "networks[].dhcp networks[].ipv4.additionalRanges[] networks[].ipv4.gateway networks[].ipv4.prefixLength networks[].ipv4.ranges[] " +
		"networks[].ipv6.additionalRanges[] networks[].ipv6.gateway networks[].ipv6.prefixLength networks[].ipv6.ranges[] networks[].nameservers[] networks[].searchDomains[]"},
	{"the cluster's rules for Services, which a tenant can often create without a VmGroup. Annotations are what controllers obey, such as external-dns: a ValidatingAdmissionPolicy for Services bounds these, too", "service.annotations[] service.drainSeconds service.ports[].appProtocol service.ports[].name service.ports[].port service.ports[].protocol service.ports[].targetPort service.type"},
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
	excused := map[string]bool{}
	for _, row := range open {
		for path := range strings.FieldsSeq(row.fields) {
			excused[path] = true
		}
	}
	for path, schema := range specFields(t) {
		switch looks := looksAt(path); {
		case !looks && !excused[path]:
			t.Errorf("no VmGroupLimit bounds spec.%s (%s): add it to charts/vmgroup/files/tenants/groups.yaml and docs/tenants.md, or to open here", path, schema.Type)
		case looks && excused[path]:
			t.Errorf("spec.%s is bounded, although open lists it", path)
		}
		delete(excused, path)
	}
	for path := range excused {
		t.Errorf("there is no spec.%s", path)
	}
}

// The table says of each field what bounds it.
func TestTheDocumentSaysOfEachFieldWhatBoundsIt(t *testing.T) {
	policy := decode[admissionv1.ValidatingAdmissionPolicy](t, build(t, "tenants"), "ValidatingAdmissionPolicy/vmgroup-limits")
	var bounds string
	for _, v := range policy.Spec.Variables {
		if strings.HasSuffix(v.Name, "Bounds") {
			bounds += v.Expression
		}
	}
	fieldsOf := map[string][]string{}
	for _, m := range regexp.MustCompile(`\['([^']+)', (?:'(?:is|has)', )?'(\w+)'\]`).FindAllStringSubmatch(bounds, -1) {
		field := "`" + strings.ReplaceAll(strings.ReplaceAll(m[1], "the label ", ""), "spec.", "") + "`"
		fieldsOf["`"+m[2]+"`"] = append(fieldsOf["`"+m[2]+"`"], field)
	}
	table := "| bound | fields of the spec |\n|---|---|\n"
	for _, limit := range slices.Sorted(maps.Keys(fieldsOf)) {
		table += "| " + limit + " | " + strings.Join(fieldsOf[limit], ", ") + " |\n"
	}
	for _, row := range open {
		table += "| " + row.why + " | `" + strings.Join(strings.Fields(row.fields), "`, `") + "` |\n"
	}
	if !strings.Contains(string(read(t, "../docs/tenants.md")), table) {
		t.Errorf("docs/tenants.md lacks this table:\n%s", table)
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
