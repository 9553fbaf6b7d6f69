package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const repository = ".."

// unpacked is the chart as a release packs it, but without Metacontroller's chart, which only a registry has.
var unpacked = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "vmgroup-chart-")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "vmgroup"), copyChart(repository, filepath.Join(dir, "vmgroup"), release{version: "v0.0.0-dev", image: "vmgroup", tag: "dev", repository: placeholder}, "")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := unpacked(); dir != "" {
		_ = os.RemoveAll(filepath.Dir(dir))
	}
	os.Exit(code)
}

// helmBinary is where go keeps the Helm version of go.mod.
var helmBinary = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// helm runs Helm on the chart; its error contains Helm's complaint.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	dir, err := unpacked()
	succeed(t, err)
	return helmOn(t, dir, args...)
}

func helmOn(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	binary, err := helmBinary()
	succeed(t, err)
	c := exec.Command(binary, append(args, dir)...)
	c.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return stdout.String(), errors.Join(err, errors.New(stderr.String()))
	}
	return stdout.String(), nil
}

type objects map[string]map[string]any // by "Kind/name"

func parse(t *testing.T, text string) objects {
	t.Helper()
	all := objects{}
	for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if o == nil {
			continue
		}
		id := fmt.Sprintf("%s/%s", o["kind"], o["metadata"].(map[string]any)["name"])
		if all[id] != nil {
			t.Errorf("%s exists twice", id)
		}
		all[id] = o
	}
	return all
}

// rendered are the chart's objects with these values.
func rendered(t *testing.T, values ...string) objects {
	t.Helper()
	return renderedIn(t, "vmgroup-system", values...)
}

func renderedIn(t *testing.T, namespace string, values ...string) objects {
	t.Helper()
	args := []string{"template", "vmgroup", "--namespace", namespace}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	text, err := helm(t, args...)
	succeed(t, err)
	return parse(t, text)
}

func kustomized(t *testing.T, lines ...string) objects {
	t.Helper()
	text, err := kustomize(repository, lines...)
	succeed(t, err)
	return parse(t, string(text))
}

// at returns the value at a path of keys, or nil.
func at(o map[string]any, path ...string) any {
	var v any = o
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// withoutHelmsLabels removes the labels that only a release has, also from selectors.
func withoutHelmsLabels(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, label := range []string{"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by"} {
			delete(v, label)
		}
		for _, inner := range v {
			withoutHelmsLabels(inner)
		}
	case []any:
		for _, inner := range v {
			withoutHelmsLabels(inner)
		}
	}
}

// comparable removes what can differ between kustomize and Helm, and sorts lists of named objects.
func comparable(t *testing.T, all objects) objects {
	t.Helper()
	text, err := json.Marshal(all)
	succeed(t, err)
	// kustomize has the settings' hash in their name; Helm, in an annotation of the pods.
	text = regexp.MustCompile(`vmgroup-settings-[a-z0-9]{10}`).ReplaceAll(text, []byte("vmgroup-settings"))
	// A packed chart links to the documents of its version.
	text = bytes.ReplaceAll(text, []byte(placeholder+"/blob/v0.0.0-dev/"), []byte(placeholder+"/blob/main/"))
	all = objects{}
	succeed(t, json.Unmarshal(text, &all))
	for id := range all {
		if strings.HasPrefix(id, "Namespace/") { // Helm requires that the namespace exists
			delete(all, id)
		}
	}
	for _, o := range all {
		withoutHelmsLabels(o)
		if o["kind"] == "CustomResourceDefinition" { // one of the CRDs is generated, without labels
			delete(o["metadata"].(map[string]any), "labels")
		}
		if spec, _ := at(o, "spec").(map[string]any); o["kind"] == "Service" && spec["type"] == "ClusterIP" { // ClusterIP is the default
			delete(spec, "type")
		}
	}
	if deployment := all["Deployment/vmgroup"]; deployment != nil {
		delete(at(deployment, "spec", "template", "metadata", "annotations").(map[string]any), "checksum/settings")
		pod := at(deployment, "spec", "template", "spec").(map[string]any)
		byName(pod["volumes"])
		for _, c := range pod["containers"].([]any) {
			for _, list := range []string{"env", "ports", "volumeMounts"} {
				byName(c.(map[string]any)[list])
			}
		}
	}
	return all
}

func byName(list any) {
	named, _ := list.([]any)
	slices.SortFunc(named, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
	})
}

func TestTheChartHasTheObjectsOfKustomize(t *testing.T) {
	const existing = "hooks.keys=existing"
	with := func(names ...string) (lines []string) {
		lines = []string{"resources: [manifests]", "components:"}
		for _, name := range names {
			lines = append(lines, "- manifests/components/"+name)
		}
		return lines
	}
	another := []string{"vcenter.name=us-east", "vcenter.address=vc-east.example.com", "clusterObjects=false"}
	of := func(names ...string) []string {
		return append(append([]string{"resources: [manifests, manifests/vcenter/vcenter.yaml]"}, with(names...)[1:]...), "- manifests/vcenter")
	}
	for name, c := range map[string]struct {
		namespace string // default: vmgroup-system
		values    []string
		tree      []string
		made      []string // the objects that only Helm makes
	}{
		"the base":      {values: []string{existing}, tree: []string{"resources: [manifests]"}},
		"the simulator": {values: []string{"simulator=true"}, tree: []string{"resources: [manifests/overlays/simulator]"}},
		"cert-manager":  {values: []string{"hooks.keys=cert-manager"}, tree: with("cert-manager")},
		"mtls":          {values: []string{existing, "hooks.clientCertificates=true"}, tree: with("mtls")},
		"vcenter-ca":    {values: []string{existing, "vcenter.caConfigMap=vc-ca"}, tree: with("vcenter-ca")},
		"rights":        {values: []string{existing, "caller.grantRights=true"}, tree: with("metacontroller-rights")},
		"monitoring":    {values: []string{existing, "monitoring.enabled=true"}, tree: with("monitoring")},
		"dashboard":     {values: []string{existing, "monitoring.dashboard.enabled=true"}, tree: with("dashboard")},
		"everything": {
			values: []string{
				"hooks.keys=cert-manager", "hooks.clientCertificates=true", "vcenter.caConfigMap=vc-ca", "caller.grantRights=true", "monitoring.enabled=true",
				"settings.VC_DATACENTER=DC0", "image.repository=registry.example.com/vmgroup", "image.tag=v1.2.3",
			},
			tree: append(with("monitoring", "vcenter-ca", "metacontroller-rights", "cert-manager", "mtls"),
				"configMapGenerator: [{name: vmgroup-settings, namespace: vmgroup-system, behavior: merge, literals: [VC_DATACENTER=DC0]}]",
				"images: [{name: vmgroup, newName: registry.example.com/vmgroup, newTag: v1.2.3}]"),
		},
		"tenants": {values: []string{existing, "tenants=true"}, tree: with("tenants")},
		"vcenters": {
			values: []string{existing, "vcenters={us-east,west}"},
			tree: append(with("vcenters"), "patches:", "- target: {kind: ValidatingAdmissionPolicy, name: vmgroup-vcenters|vmgroup-selectors}",
				"  patch: |", "    - op: replace", "      path: /spec/variables/0/expression", `      value: "['us-east', 'west']"`),
		},
		"another resync period": {
			values: []string{existing, "compositeController.resyncPeriodSeconds=120"},
			tree: []string{"resources: [manifests]", "patches:", "- target: {kind: CompositeController}", "  patch: |",
				"    - op: replace", "      path: /spec/resyncPeriodSeconds", "      value: 120"},
		},
		"another vCenter": {namespace: "vmgroup-us-east", values: append(another, existing), tree: of()},
		"another vCenter with everything": {
			namespace: "vmgroup-us-east",
			values: append(another, "hooks.keys=cert-manager", "hooks.clientCertificates=true", "vcenter.caConfigMap=vc-ca", "monitoring.enabled=true",
				"settings.VC_DATACENTER=DC0", "image.repository=registry.example.com/vmgroup", "image.tag=v1.2.3"),
			tree: append(of("monitoring", "vcenter-ca", "metacontroller-rights", "cert-manager", "mtls"),
				"configMapGenerator: [{name: vmgroup-settings, namespace: vmgroup-system, behavior: merge, literals: [VC_DATACENTER=DC0]}]",
				"images: [{name: vmgroup, newName: registry.example.com/vmgroup, newTag: v1.2.3}]"),
		},
		"generated keys": {tree: []string{"resources: [manifests]"}, made: []string{"Secret/vmgroup-hook-token", "Secret/vmgroup-reader-token", "Secret/vmgroup-tls", "Secret/vmgroup-hook-client"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := comparable(t, renderedIn(t, cmp.Or(c.namespace, "vmgroup-system"), c.values...)), comparable(t, kustomized(t, c.tree...))
			for _, id := range c.made {
				if got[id] == nil {
					t.Errorf("Helm makes no %s", id)
				}
				delete(got, id)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("kustomize (-) and Helm (+) differ:\n%s", diff)
			}
		})
	}
}

func TestTheAlertsLinkToWhereTheDocumentsAreSaidToBe(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository, "docs/day-to-day.md"))
	succeed(t, err)
	_, recipe, _ := strings.Cut(string(page), "```yaml\nconfigMapGenerator:\n- name: runbooks")
	recipe, _, _ = strings.Cut(recipe, "```")
	const base = "https://git.example.com/vmgroup/blob/v1.2.3/"
	monitored := []string{"resources: [manifests]", "components: [manifests/components/monitoring]"}
	for what, c := range map[string]struct {
		all  objects
		base string
	}{
		"Helm":                 {rendered(t, "hooks.keys=existing", "monitoring.enabled=true", "monitoring.runbookBaseURL="+base), base},
		"kustomize":            {kustomized(t, append(monitored, "configMapGenerator:\n- name: runbooks"+recipe)...), base},
		"Helm by default":      {rendered(t, "hooks.keys=existing", "monitoring.enabled=true"), placeholder + "/blob/v0.0.0-dev/"},
		"kustomize by default": {kustomized(t, monitored...), placeholder + "/blob/main/"},
	} {
		text, err := json.Marshal(c.all["PrometheusRule/vmgroup"])
		succeed(t, err)
		alerts := strings.Count(string(text), `"alert":`)
		if links := strings.Count(string(text), `"runbook_url":"`+c.base+"docs/troubleshooting.md#"); alerts < 5 || links != alerts {
			t.Errorf("%s: %d alerts, %d links", what, alerts, links)
		}
		for id := range c.all {
			if strings.HasPrefix(id, "ConfigMap/runbooks") {
				t.Errorf("%s applies %s", what, id)
			}
		}
	}
}

func TestHelmFindsNothingWrongWithTheChart(t *testing.T) {
	for _, values := range []string{"simulator=false", "simulator=true", "hooks.keys=cert-manager", "monitoring.enabled=true"} {
		if out, err := helm(t, "lint", "--strict", "--kube-version", "1.30.0", "--set", values); err != nil {
			t.Errorf("%s: %v\n%s", values, err, out)
		}
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for _, wrong := range []string{
		"replica=3", "replicas=many", "hooks.keys=none", "settings.VC_PASS=secret", "settings.vc_folder=x", "vcenter.host=vc.example.com", "image.digest=sha256:12",
		"podLabels.app\\.kubernetes\\.io/name=other", "networkPolicy.vcenterCIDRs={vc.example.com}", "monitoring.runbookBaseURL=git.example.com", "compositeController.name=Web",
		"compositeController.name=web", "compositeController.name=vmgroups", "compositeController.name=vmgroup-", // sync/hook/wire.go takes these for the names of other controllers
		"vcenter.name=US", "vcenters={a b}", "compositeController.resyncPeriodSeconds=0", "compositeController.resyncPeriodSeconds=5m",
		"networkPolicy.vcenterCIDRs={192.0.2.0/99}", "networkPolicy.vcenterCIDRs={192.0.2.0/33}", "networkPolicy.vcenterCIDRs={192.0.2.256/24}", "networkPolicy.vcenterCIDRs={192.0.2/24}",
		"networkPolicy.vcenterCIDRs={fd00::/129}", "networkPolicy.vcenterCIDRs={fd00/8}", "networkPolicy.vcenterCIDRs={192.0.2.1}", "networkPolicy.vcenterPort=70000",
		"networkPolicy.egress[0].port=3128", "settings.VMGROUP_PROBE_NETWORKS=10.0.0.0/99", `settings.VMGROUP_GUEST_NETWORKS=10.0.0.0/8\,lan`,
		"settings.VMGROUP_SLOTS=abc", "settings.VMGROUP_SLOTS=0", "settings.VMGROUP_SLOTS=641", "settings.VMGROUP_RESYNC=30", "settings.VMGROUP_LEASE=soon", "settings.VMGROUP_EVENTS=no",
		"settings.VC_INSECURE=maybe", "settings.VMGROUP_LOG_LEVEL=trace", "resources.limit.memory=1Gi", "resources.limits.memory=1GB", "resources.requests.cpu=fast",
		"tolerations[0].keys=a", "tolerations[0].effect=Never", "affinity.podAntiaffinity.a=b", "hostAliases[0].hostname=vc", "dnsPolicy=None1", "dnsConfig.nameserver=192.0.2.1",
		"updateStrategy.type=Slow", "updateStrategy.rollingUpdate.maxSurge=all", "monitoring.serviceMonitor.interval=30", "monitoring.serviceMonitor.scrapeTimeout=fast",
		"monitoring.prometheus.namespace=", "service.labels.helm\\.sh/chart=x", "serviceAccount.labels.helm\\.sh/chart=x", "deploymentAnnotations.a=1",
	} {
		if out, err := helm(t, "template", "vmgroup", "--set", wrong); err == nil || !strings.Contains(err.Error(), "values") {
			t.Errorf("%s: %v\n%.200s", wrong, err, out)
		}
	}
	for wrong, where := range map[string]string{
		"service.port=8081":                      "service.port: 8081 is the Service's port of /healthz and /metrics",
		"resources.limit.memory=1Gi":             "at '/resources': additional properties 'limit' not allowed",
		"settings.VMGROUP_SLOT=3":                "at '/settings': additional properties 'VMGROUP_SLOT' not allowed",
		"settings.VC_PASS=secret":                "at '/settings': additional properties 'VC_PASS' not allowed",
		"commonLabels.helm\\.sh/chart=x":         "at '/commonLabels/helm.sh~1chart'",
		"podLabels.app\\.kubernetes\\.io/name=x": "at '/podLabels/app.kubernetes.io~1name'",
	} {
		if _, err := helm(t, "template", "vmgroup", "--set", wrong); err == nil || !strings.Contains(err.Error(), where) {
			t.Errorf("%s: %v; want an error and %q in the text", wrong, err, where)
		}
	}
}

// Helm deletes what a release no longer has, and with a CRD all objects of its kind: the groups, or the bounds of their namespaces.
func TestHelmKeepsTheCRDs(t *testing.T) {
	seen := 0
	for id, o := range rendered(t, "tenants=true") {
		if o["kind"] == "CustomResourceDefinition" {
			if seen++; at(o, "metadata", "annotations", "helm.sh/resource-policy") != "keep" {
				t.Errorf("%s goes with the release", id)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d CRDs; want 2", seen)
	}
}

func TestACompositeControllerCanHaveTheNamesThatTheServerKnows(t *testing.T) {
	for _, name := range []string{"", "vmgroup", "vmgroup-web", "vmgroup-us-east-1"} {
		if _, err := helm(t, "template", "vmgroup", "--set", "compositeController.name="+name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A template must use each value, unless the value is for Metacontroller's chart.
func TestEveryValueIsUsedAndInTheSchema(t *testing.T) {
	dir, err := unpacked()
	succeed(t, err)
	var templates, values string
	for _, path := range chartFiles(t, dir, "templates/*") {
		templates += path
	}
	values = chartFiles(t, dir, "values.yaml")[0]
	var defaults map[string]any
	succeed(t, yaml.Unmarshal([]byte(values), &defaults))
	var schema struct{ Properties map[string]any }
	succeed(t, json.Unmarshal([]byte(chartFiles(t, dir, "values.schema.json")[0]), &schema))
	for name, value := range defaults {
		if schema.Properties[name] == nil {
			t.Errorf("%s is not in the schema", name)
		}
		delete(schema.Properties, name)
		if !strings.Contains(templates, ".Values."+name) {
			t.Errorf("no template of the chart uses the value %s", name)
		}
		if m, ok := value.(map[string]any); ok && !slices.Contains([]string{"metacontroller", "settings", "resources", "image", "podSecurityContext", "securityContext"}, name) {
			for key := range m {
				if !strings.Contains(templates, ".Values."+name+"."+key) {
					t.Errorf("no template of the chart uses the value %s.%s", name, key)
				}
			}
		}
	}
	delete(schema.Properties, "global") // Helm's own
	for name := range schema.Properties {
		t.Errorf("%s has no default", name)
	}
}

func chartFiles(t *testing.T, dir, pattern string) (texts []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v %v", pattern, paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		succeed(t, err)
		texts = append(texts, string(text))
	}
	return texts
}

func TestTheServerIsLetOutToTheNetworksInWhichItAsksMembers(t *testing.T) {
	out, err := helm(t, "template", "--set", `settings.VMGROUP_PROBE_NETWORKS=10.20.0.0/16\, fd00::/8`, "--show-only", "templates/networkpolicy.yaml")
	succeed(t, err)
	for _, want := range []string{"cidr: 10.20.0.0/16\n", "cidr: fd00::/8\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the network policy lacks %q:\n%s", want, out)
		}
	}
}
