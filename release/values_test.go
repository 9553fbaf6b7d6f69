package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// rendering is the chart with the values of a file, under the name of a release.
func rendering(t *testing.T, name, values string) objects {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := helm(t, "template", name, "--namespace", "site", "--values", file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func container(t *testing.T, all objects, name string) (pod, c map[string]any) {
	t.Helper()
	pod, _ = at(all["Deployment/"+name], "spec", "template", "spec").(map[string]any)
	if pod == nil {
		t.Fatalf("no Deployment %s", name)
	}
	return pod, pod["containers"].([]any)[0].(map[string]any)
}

// wants compares with YAML.
func wants(t *testing.T, what string, got any, want string) {
	t.Helper()
	var wanted any
	if err := yaml.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(wanted, got); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}

// As Flux and Argo CD take it from a repository, and cp from a directory.
func TestTheChartOfACheckoutNeedsNoNetworkAndNoLinks(t *testing.T) {
	dir := filepath.Join(repository, chart)
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSymlink != 0 {
			t.Errorf("%s is a link", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, proxy := range []string{"HTTPS_PROXY", "HTTP_PROXY"} {
		t.Setenv(proxy, "http://127.0.0.1:1") // where nobody answers
	}
	for _, args := range [][]string{{"template", "vmgroup"}, {"lint", "--strict"}} {
		if _, err := helmOn(t, dir, args...); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestTheIconIsThePages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, chart, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var meta struct{ Icon string }
	if err := yaml.Unmarshal(text, &meta); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(repository, "sync/page/assets/icon.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(image); meta.Icon != want {
		t.Errorf("icon: %s", want)
	}
}

const everything = `
monitoring: {enabled: true, dashboard: {enabled: true}}
tenants: true
vcenters: [east]
caller: {grantRights: true}
replicas: 2
commonLabels: {team: infra}
`

// What a cluster has once keeps its name, as does the CompositeController, whose name is in the finalizers of the groups.
func TestObjectsAreNamedAndLabeledByTheRelease(t *testing.T) {
	for values, want := range map[string]string{"": "prod-vmgroup", "fullnameOverride: vms": "vms"} {
		for _, keys := range []string{"generate", "cert-manager", "existing"} {
			all := rendering(t, "prod", everything+"hooks: {clientCertificates: true, keys: "+keys+"}\n"+values)
			for id, o := range all {
				name := fmt.Sprint(at(o, "metadata", "name"))
				if namespaced := at(o, "metadata", "namespace") != nil; namespaced != (name == want || strings.HasPrefix(name, want+"-")) {
					t.Errorf("%s is %s, in a namespace: %t", values, id, namespaced)
				}
				labels, _ := at(o, "metadata", "labels").(map[string]any)
				for label, value := range map[string]string{
					"helm.sh/chart": "vmgroup-0.0.0-dev", "app.kubernetes.io/name": "vmgroup", "app.kubernetes.io/instance": "prod",
					"app.kubernetes.io/version": "dev", "app.kubernetes.io/managed-by": "Helm", "team": "infra",
				} {
					if labels[label] != value {
						t.Errorf("%s has the label %s: %v, want %s", id, label, labels[label], value)
					}
				}
				for _, selector := range [][]string{{"spec", "selector"}, {"spec", "selector", "matchLabels"}, {"spec", "podSelector", "matchLabels"}} {
					if selected, _ := at(o, selector...).(map[string]any); selected["app.kubernetes.io/name"] != nil && selected["app.kubernetes.io/instance"] != "prod" {
						t.Errorf("%s selects %v", id, selected)
					}
				}
			}
			pods, _ := at(all["Deployment/"+want], "spec", "template", "metadata", "labels").(map[string]any)
			wants(t, "the pods' labels", pods, "{app.kubernetes.io/name: vmgroup, app.kubernetes.io/instance: prod, team: infra}")
			host := want + ".site.svc"
			controller := all["CompositeController/vmgroup"]
			if url := at(controller, "spec", "hooks", "sync", "webhook", "url"); url != "https://"+host+":8443/sync" {
				t.Errorf("Metacontroller calls %v", url)
			}
			text, err := json.Marshal([]any{controller, all["Deployment/"+want], all["PrometheusRule/"+want], all["Certificate/"+want+"-tls"], all["Certificate/"+want+"-hook-client"]})
			if err != nil {
				t.Fatal(err)
			}
			for _, former := range []string{"vmgroup-system", `"vmgroup-tls`, `"vmgroup-hook`, `"vmgroup-reader`, `"vmgroup-settings`, "Secret vmgroup-tls", `service=\"vmgroup\"`} {
				if strings.Contains(string(text), former) {
					t.Errorf("%s: %s is still there", keys, former)
				}
			}
			if keys == "cert-manager" {
				wants(t, "the certificate's names", at(all["Certificate/"+want+"-tls"], "spec", "dnsNames"), "["+host+", "+want+".site]")
			}
		}
	}
}

func TestThePodsFitTheSite(t *testing.T) {
	all := rendering(t, "vmgroup", `
image: {repository: registry.example.com/vmgroup, tag: v1.2.3, digest: "sha256:`+strings.Repeat("0a", 32)+`"}
imagePullSecrets: [{name: pull}]
podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}
securityContext: {seccompProfile: null}
extraArgs: [--log-level=debug]
extraEnv: [{name: SSL_CERT_DIR, value: /ca}]
extraVolumes: [{name: ca, configMap: {name: ca}}]
extraVolumeMounts: [{name: ca, mountPath: /ca}]
serviceAccount: {name: robot, annotations: {a: b}}
service: {type: NodePort, port: 443, annotations: {c: d}}
podLabels: {tier: control}
podAnnotations: {e: f}
replicas: 3
podDisruptionBudget: {minAvailable: 50%}
topologySpreadConstraints: [{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]
`)
	pod, c := container(t, all, "vmgroup")
	wants(t, "securityContext of the pod", pod["securityContext"], "{runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}")
	wants(t, "securityContext", c["securityContext"], "{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, runAsNonRoot: true, capabilities: {drop: [ALL]}}")
	wants(t, "args", c["args"], "[serve, --log-level=debug]")
	wants(t, "imagePullSecrets", pod["imagePullSecrets"], "[{name: pull}]")
	wants(t, "topologySpreadConstraints", pod["topologySpreadConstraints"], "[{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]")
	if c["image"] != "registry.example.com/vmgroup@sha256:"+strings.Repeat("0a", 32) {
		t.Errorf("image: %v", c["image"])
	}
	for list, want := range map[string]string{"env": "{name: SSL_CERT_DIR, value: /ca}", "volumeMounts": "{name: ca, mountPath: /ca}"} {
		entries := c[list].([]any)
		wants(t, list, entries[len(entries)-1], want)
	}
	volumes := pod["volumes"].([]any)
	wants(t, "volumes", volumes[len(volumes)-1], "{name: ca, configMap: {name: ca}}")
	if pod["serviceAccountName"] != "robot" || at(all["ServiceAccount/robot"], "metadata", "annotations", "a") != "b" || at(all["ServiceAccount/robot"], "automountServiceAccountToken") != false {
		t.Errorf("the account is %v: %v", pod["serviceAccountName"], all["ServiceAccount/robot"])
	}
	service := all["Service/vmgroup"]
	wants(t, "service", []any{at(service, "spec", "type"), at(service, "metadata", "annotations"), at(service, "spec", "ports").([]any)[0]},
		"[NodePort, {c: d}, {name: hooks, port: 443, targetPort: hooks, protocol: TCP, appProtocol: https}]")
	if url := at(all["CompositeController/vmgroup"], "spec", "hooks", "sync", "webhook", "url"); url != "https://vmgroup.site.svc:443/sync" {
		t.Errorf("Metacontroller calls %v", url)
	}
	budget, _ := at(all["PodDisruptionBudget/vmgroup"], "spec").(map[string]any)
	if budget["minAvailable"] != "50%" || budget["maxUnavailable"] != nil {
		t.Errorf("the budget is %v", budget)
	}
	metadata, _ := at(all["Deployment/vmgroup"], "spec", "template", "metadata").(map[string]any)
	if at(metadata, "labels", "tier") != "control" || at(metadata, "annotations", "e") != "f" {
		t.Errorf("the pods have %v", metadata)
	}

	all = rendering(t, "vmgroup", "serviceAccount: {create: false}\nreplicas: 2\npodDisruptionBudget: {enabled: false}\n")
	if pod, _ = container(t, all, "vmgroup"); pod["serviceAccountName"] != "default" || all["ServiceAccount/vmgroup"] != nil || all["PodDisruptionBudget/vmgroup"] != nil {
		t.Errorf("without an account and a budget: %v", pod["serviceAccountName"])
	}
}

func TestSettingsAreStringsWhateverTheyWereWrittenAs(t *testing.T) {
	all := rendering(t, "vmgroup", "settings: {VMGROUP_SLOTS: 64, VMGROUP_EVENTS: false, VMGROUP_RESYNC: 60s, VC_POOL: 1000000, VC_DATASTORE: \"0123\"}\n")
	wants(t, "settings", at(all["ConfigMap/vmgroup-settings"], "data"),
		`{VC_FOLDER: vm-operator, VMGROUP_SLOTS: "64", VMGROUP_EVENTS: "false", VMGROUP_RESYNC: 60s, VC_POOL: "1000000", VC_DATASTORE: "0123"}`)
}

func TestTheServerIsLetOutToTheProxyThatItUses(t *testing.T) {
	for proxy, port := range map[string]int{
		"http://proxy.example.com:3128": 3128, "https://u:p@proxy.example.com:8443/": 8443, "http://[fd00::1]:3128": 3128,
		"http://proxy.example.com": 80, "https://proxy.example.com": 443, "http://[fd00::1]": 80,
	} {
		all := rendering(t, "vmgroup", "settings: {HTTPS_PROXY: \""+proxy+"\", NO_PROXY: .svc}\n")
		if got := at(all["ConfigMap/vmgroup-settings"], "data", "HTTPS_PROXY"); got != proxy {
			t.Errorf("%s: the setting is %v", proxy, got)
		}
		var ports []any
		for _, rule := range at(all["NetworkPolicy/vmgroup"], "spec", "egress").([]any) {
			for _, p := range rule.(map[string]any)["ports"].([]any) {
				ports = append(ports, p.(map[string]any)["port"])
			}
		}
		wants(t, proxy, ports, fmt.Sprintf("[53, 53, 5353, 5353, %d, 443]", port))
	}
}

func TestPrometheusAndGrafanaFindTheirObjectsByLabels(t *testing.T) {
	all := rendering(t, "vmgroup", `
monitoring:
  enabled: true
  serviceMonitor: {labels: {release: stack}}
  rule: {labels: {role: alerts}}
  dashboard: {enabled: true, labels: {grafana_dashboard: null, dashboards: ours}}
`)
	for id, label := range map[string][2]string{
		"ServiceMonitor/vmgroup": {"release", "stack"}, "PrometheusRule/vmgroup": {"role", "alerts"}, "ConfigMap/vmgroup-dashboard": {"dashboards", "ours"},
	} {
		if got := at(all[id], "metadata", "labels", label[0]); got != label[1] {
			t.Errorf("%s: the label %s is %v", id, label[0], got)
		}
	}
	board, _ := at(all["ConfigMap/vmgroup-dashboard"], "data", "vmgroup.json").(string)
	if !json.Valid([]byte(board)) {
		t.Errorf("the dashboard is %.100q", board)
	}
	if alone := rendering(t, "vmgroup", "networkPolicy: {enabled: false}\nmonitoring: {enabled: true}\n"); alone["NetworkPolicy/vmgroup-metrics"] != nil {
		t.Error("a policy for Prometheus alone shuts Metacontroller out")
	}
}
