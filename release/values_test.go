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
	succeed(t, os.WriteFile(file, []byte(values), 0o600))
	text, err := helm(t, "template", name, "--namespace", "site", "--values", file)
	succeed(t, err)
	return parse(t, text)
}

func container(t *testing.T, all objects, name string) (pod, c map[string]any) {
	t.Helper()
	pod, _ = at(all["Deployment/"+name], "spec", "template", "spec").(map[string]any)
	if pod == nil {
		t.Fatalf("the chart has no Deployment %s", name)
	}
	return pod, pod["containers"].([]any)[0].(map[string]any)
}

// wants compares a value with the value of a YAML text.
func wants(t *testing.T, what string, got any, want string) {
	t.Helper()
	var wanted any
	succeed(t, yaml.Unmarshal([]byte(want), &wanted))
	if diff := gocmp.Diff(wanted, got); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}

// Flux and Argo CD take the chart from a repository, and cp copies it from a directory, so it must be complete without links.
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
		t.Setenv(proxy, "http://127.0.0.1:1") // no server listens there
	}
	for _, args := range [][]string{{"template", "vmgroup"}, {"lint", "--strict"}} {
		if _, err := helmOn(t, dir, args...); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Without GOMEMLIMIT, or with one far below the limit, a larger limit would be of no use.
func TestTheMemoryLimitOfTheChartIsAlsoGos(t *testing.T) {
	for values, want := range map[string]string{
		"":                                   "230MiB",
		"resources: {limits: {memory: 2Gi}}": "1843MiB",
		"resources: {limits: {memory: 320Mi}}\ngoMemLimit: 256MiB": "256MiB",
		"resources: {limits: {memory: 1.5Gi}}":                     "1382MiB",
		"resources: {limits: {memory: 500M}}\ngoMemLimit: 400MiB":  "400MiB",
		"resources: {limits: null}":                                "",
	} {
		_, c := container(t, rendering(t, "vmgroup", values), "vmgroup")
		got := ""
		for _, e := range c["env"].([]any) {
			if of := e.(map[string]any); of["name"] == "GOMEMLIMIT" {
				got = fmt.Sprint(of["value"])
			}
		}
		if got != want {
			t.Errorf("%s: GOMEMLIMIT is %q, want %q", values, got, want)
		}
	}
	for set, says := range map[string]string{
		"resources.limits.memory=500M": "500M is not in Mi or Gi",
		"vcenter.name=east":            "an install with a name needs clusterObjects=false",
	} {
		if _, err := helm(t, "template", "vmgroup", "--set", set); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", set, err, says)
		}
	}
}

func TestTheIconIsThePages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, chart, "Chart.yaml"))
	succeed(t, err)
	var meta struct{ Icon string }
	succeed(t, yaml.Unmarshal(text, &meta))
	image, err := os.ReadFile(filepath.Join(repository, "sync/page/assets/icon.svg"))
	succeed(t, err)
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

// Objects that a cluster has only once keep their names, and so does the CompositeController: the groups' finalizers contain its name.
func TestObjectsAreNamedAndLabeledByTheRelease(t *testing.T) {
	for values, want := range map[string]string{"": "prod-vmgroup", "fullnameOverride: vms": "vms"} {
		for _, keys := range []string{"generate", "cert-manager", "existing"} {
			all := rendering(t, "prod", everything+"hooks: {clientCertificates: true, keys: "+keys+"}\n"+values)
			for id, o := range all {
				name := fmt.Sprint(at(o, "metadata", "name"))
				if namespaced := at(o, "metadata", "namespace") != nil; namespaced != (name == want || strings.HasPrefix(name, want+"-")) {
					t.Errorf("%s is %s, in a namespace: %t; want %t", values, id, namespaced, (name == want || strings.HasPrefix(name, want+"-")))
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
				t.Errorf("Metacontroller calls %v; want %v", url, "https://"+host+":8443/sync")
			}
			text, err := json.Marshal([]any{controller, all["Deployment/"+want], all["PrometheusRule/"+want], all["Certificate/"+want+"-tls"], all["Certificate/"+want+"-hook-client"]})
			succeed(t, err)
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
serviceAccount: {name: robot, annotations: {a: b}, labels: {tier: robots}}
service: {type: NodePort, port: 443, annotations: {c: d}, labels: {zone: a, team: web}}
commonLabels: {team: infra}
deploymentAnnotations: {g: h}
updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
hostAliases: [{ip: 192.0.2.10, hostnames: [vc.example.com]}]
dnsPolicy: None
dnsConfig: {nameservers: [192.0.2.53], searches: [example.com], options: [{name: ndots, value: "1"}]}
resources: {requests: {cpu: 0.5, memory: 256Mi}, limits: {memory: 1.5Gi, ephemeral-storage: 1e9}}
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
		t.Errorf("image: %v; want %v", c["image"], "registry.example.com/vmgroup@sha256:"+strings.Repeat("0a", 32))
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
	if labels := at(all["ServiceAccount/robot"], "metadata", "labels"); at(labels.(map[string]any), "tier") != "robots" || at(labels.(map[string]any), "app.kubernetes.io/name") != "vmgroup" {
		t.Errorf("the account has the labels %v", labels)
	}
	wants(t, "hostAliases", pod["hostAliases"], "[{ip: 192.0.2.10, hostnames: [vc.example.com]}]")
	wants(t, "DNS", []any{pod["dnsPolicy"], pod["dnsConfig"]}, "[None, {nameservers: [192.0.2.53], searches: [example.com], options: [{name: ndots, value: \"1\"}]}]")
	wants(t, "the Deployment", []any{at(all["Deployment/vmgroup"], "metadata", "annotations"), at(all["Deployment/vmgroup"], "spec", "strategy")},
		"[{g: h}, {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}]")
	service := all["Service/vmgroup"]
	if labels := at(service, "metadata", "labels").(map[string]any); labels["zone"] != "a" || labels["team"] != "web" || labels["app.kubernetes.io/name"] != "vmgroup" {
		t.Errorf("the Service has the labels %v", labels)
	}
	wants(t, "service", []any{at(service, "spec", "type"), at(service, "metadata", "annotations"), at(service, "spec", "ports").([]any)[0]},
		"[NodePort, {c: d}, {name: hooks, port: 443, targetPort: hooks, protocol: TCP, appProtocol: https}]")
	if url := at(all["CompositeController/vmgroup"], "spec", "hooks", "sync", "webhook", "url"); url != "https://vmgroup.site.svc:443/sync" {
		t.Errorf("Metacontroller calls %v; want %v", url, "https://vmgroup.site.svc:443/sync")
	}
	budget, _ := at(all["PodDisruptionBudget/vmgroup"], "spec").(map[string]any)
	if budget["minAvailable"] != "50%" || budget["maxUnavailable"] != nil {
		t.Errorf("the budget is %v", budget)
	}
	metadata, _ := at(all["Deployment/vmgroup"], "spec", "template", "metadata").(map[string]any)
	if at(metadata, "labels", "tier") != "control" || at(metadata, "annotations", "e") != "f" {
		t.Errorf("the pods have %v", metadata)
	}

	wants(t, "the strategy of one replica", at(rendering(t, "vmgroup", "")["Deployment/vmgroup"], "spec", "strategy"), "{type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}")
	if all = rendering(t, "vmgroup", "simulator: true\nupdateStrategy: {type: RollingUpdate}\n"); at(all["Deployment/vmgroup"], "spec", "strategy", "type") != "Recreate" {
		t.Error("while the simulator's Deployment is updated, two vCenters run")
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

// egress returns the ports of the server's egress rules, without the first rule, which is for DNS.
func egress(all objects) (ports []any) {
	for _, rule := range at(all["NetworkPolicy/vmgroup"], "spec", "egress").([]any)[1:] {
		for _, p := range rule.(map[string]any)["ports"].([]any) {
			ports = append(ports, p.(map[string]any)["port"])
		}
	}
	return ports
}

func TestTheServerIsLetOutToTheProxyThatItUses(t *testing.T) {
	for proxy, port := range map[string]int{
		"http://proxy.example.com:3128": 3128, "https://u:p@proxy.example.com:8443/": 8443, "http://[fd00::1]:3128": 3128,
		"http://proxy.example.com": 80, "https://proxy.example.com": 443, "http://[fd00::1]": 80, "proxy.example.com:3128": 3128, "socks5://proxy.example.com": 1080,
	} {
		all := rendering(t, "vmgroup", "settings: {HTTPS_PROXY: \""+proxy+"\", NO_PROXY: .svc}\n")
		if got := at(all["ConfigMap/vmgroup-settings"], "data", "HTTPS_PROXY"); got != proxy {
			t.Errorf("%s: the setting is %v", proxy, got)
		}
		wants(t, proxy, egress(all), fmt.Sprintf("[%d, 443]", port))
		for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
			wants(t, proxy+" as "+name, egress(rendering(t, "vmgroup", "extraEnv: [{name: "+name+", value: \""+proxy+"\"}]\n")), fmt.Sprintf("[%d, 443]", port))
		}
	}
	all := rendering(t, "vmgroup", `
extraEnv: [{name: HTTPS_PROXY, valueFrom: {secretKeyRef: {name: proxy, key: url}}}]
networkPolicy: {egress: [{to: [{ipBlock: {cidr: 192.0.2.80/32}}], ports: [{port: 3128, protocol: TCP}]}]}
`)
	rules := at(all["NetworkPolicy/vmgroup"], "spec", "egress").([]any)
	wants(t, "a proxy of a Secret", rules[len(rules)-1], "{to: [{ipBlock: {cidr: 192.0.2.80/32}}], ports: [{port: 3128, protocol: TCP}]}")
	wants(t, "beside vCenter", egress(all), "[443, 3128]")
}

func TestTheServerIsLetOutToVCentersPort(t *testing.T) {
	for address, port := range map[string]int{
		"": 443, "vc.example.com": 443, "vc.example.com:8443": 8443, "https://vc.example.com/sdk": 443, "https://vc.example.com:9443/sdk": 9443, "http://127.0.0.1": 80,
		"192.0.2.1:444": 444, "fd00::1": 443, "[fd00::1]:8443": 8443, "[fd00::1]": 443, "https://[fd00::1]:8443/sdk": 8443, "fd00:1:2:3:4:5:6:8443": 443,
	} {
		wants(t, address, egress(rendering(t, "vmgroup", "vcenter: {address: \""+address+"\"}\n")), fmt.Sprintf("[%d]", port))
	}
	wants(t, "of the Secret", egress(rendering(t, "vmgroup", "networkPolicy: {vcenterPort: 8443}\n")), "[8443]")
	all := rendering(t, "vmgroup", "networkPolicy: {vcenterCIDRs: [192.0.2.10/32, \"fd00::/8\", \"::ffff:192.0.2.1/128\"]}\nvcenter: {address: \"vc:8443\"}\n")
	rules := at(all["NetworkPolicy/vmgroup"], "spec", "egress").([]any)
	wants(t, "networks", rules[1], `{ports: [{port: 8443, protocol: TCP}], to: [{ipBlock: {cidr: 192.0.2.10/32}}, {ipBlock: {cidr: "fd00::/8"}}, {ipBlock: {cidr: "::ffff:192.0.2.1/128"}}]}`)
}

// The chart's schema must accept the values that the server accepts: the types of the flags are in cmd/vmgroup.
func TestSettingsThatTheServerTakesAreNotRefused(t *testing.T) {
	rendering(t, "vmgroup", `
settings:
  VMGROUP_SLOTS: "640"
  VMGROUP_RESYNC: 1m30s
  VMGROUP_LEASE: 1.5h
  VMGROUP_EVENTS: "false"
  VMGROUP_GROUP_METRICS: true
  VC_ACCEPT_EULAS: "true"
  VC_INSECURE: ""
  VMGROUP_LOG_LEVEL: debug
  VMGROUP_PROBE_NETWORKS: "10.0.0.0/8, fd00::/8,2001:db8:1:2:3:4:5:6/128,::/0"
  VMGROUP_GUEST_NETWORKS: ""
tolerations: [{key: node, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
`)
}

func TestThePolicyLetsPrometheusInWhereItIs(t *testing.T) {
	for values, from := range map[string]string{
		"": "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}, podSelector: {matchLabels: {app.kubernetes.io/name: prometheus}}}",
		"  prometheus: {namespace: observability, podLabels: {app: prom}}\n": "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: observability}}, podSelector: {matchLabels: {app: prom}}}",
	} {
		all := rendering(t, "vmgroup", "monitoring:\n  enabled: true\n"+values)
		rule := at(all["NetworkPolicy/vmgroup-metrics"], "spec", "ingress").([]any)[0].(map[string]any)
		wants(t, values, rule["from"].([]any)[0], from)
	}
}

// OpenShift's restricted-v2 refuses pods that choose a user outside the range of the namespace.
func TestOnOpenShiftNoPodChoosesItsUser(t *testing.T) {
	chart := "metacontroller-helm-4.17.2.tgz"
	stub := filepath.Join(t.TempDir(), chart)
	if err := (release{}).writeTar(stub, []file{
		{name: "metacontroller-helm/Chart.yaml", mode: 0o644, content: []byte("{apiVersion: v2, name: metacontroller-helm, version: 4.17.2}")},
		{name: "metacontroller-helm/values.yaml", mode: 0o644, content: []byte("podSecurityContext: {}\n")},
		{name: "metacontroller-helm/templates/pod.yaml", mode: 0o644, content: []byte( // the pod of Metacontroller's StatefulSet
			"kind: Pod\nmetadata: {name: metacontroller}\nspec:\n  securityContext:\n    {{- toYaml .Values.podSecurityContext | nindent 4 }}\n")},
	}, true); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "vmgroup")
	succeed(t, copyChart(repository, dir, release{version: "v0.0.0-dev", image: "vmgroup", tag: "dev"}, stub))
	page := chartFiles(t, dir, "README.md")[0]
	_, example, _ := strings.Cut(page, "```yaml\n")
	values := filepath.Join(t.TempDir(), "values.yaml")
	example, _, _ = strings.Cut(example, "\nmonitoring:")
	succeed(t, os.WriteFile(values, []byte(example), 0o600))
	for _, c := range []struct {
		args   []string
		chosen bool
	}{{[]string{"--values", values}, false}, {nil, true}} {
		text, err := helmOn(t, dir, append([]string{"template", "vmgroup", "--set", "metacontroller.enabled=true"}, c.args...)...)
		succeed(t, err)
		all := parse(t, text)
		for what, context := range map[string]any{
			"the server": at(all["Deployment/vmgroup"], "spec", "template", "spec", "securityContext"), "Metacontroller": at(all["Pod/metacontroller"], "spec", "securityContext"),
		} {
			fields := context.(map[string]any)
			for _, field := range []string{"runAsUser", "runAsGroup"} {
				if (fields[field] != nil) != c.chosen { // the API server treats null as absent
					t.Errorf("%v: %s has %s %v", c.args, what, field, fields[field])
				}
			}
			if fields["runAsNonRoot"] != true {
				t.Errorf("%s may run as root: %v", what, fields)
			}
		}
	}
}

// The chart's notes must say how to sign in to the page after each kind of install.
func TestTheNotesSayHowToSignIn(t *testing.T) {
	for values, wants := range map[string][]string{
		"":                                     {"https://127.0.0.1:8443/", "kubectl -n site port-forward service/prod-vmgroup 8443:8443\n", "kubectl -n site get secret prod-vmgroup-reader-token "},
		"service.port=443,hooks.keys=existing": {"kubectl -n site port-forward service/prod-vmgroup 8443:443\n", "kubectl -n site create secret generic prod-vmgroup-reader-token ", "kubectl -n site get secret prod-vmgroup-reader-token "},
		"simulator=true":                       {"http://127.0.0.1:8080/", "kubectl -n site port-forward service/prod-vmgroup 8080:8080\n"},
	} {
		text, err := helm(t, "install", "prod", "--namespace", "site", "--dry-run=client", "--set", values)
		succeed(t, err)
		_, notes, _ := strings.Cut(text, "\nNOTES:\n")
		for _, want := range wants {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: no %q in:\n%s", values, want, notes)
			}
		}
		if created := strings.Contains(text, "name: prod-vmgroup-reader-token"); created != (values == "") || strings.Contains(notes, "create secret") != strings.Contains(values, "existing") {
			t.Errorf("%s: Helm creates the reader's token: %t\n%s", values, created, notes)
		}
	}
}

func TestPrometheusAndGrafanaFindTheirObjectsByLabels(t *testing.T) {
	all := rendering(t, "vmgroup", `
monitoring:
  enabled: true
  serviceMonitor:
    labels: {release: stack}
    interval: 1m
    scrapeTimeout: 20s
    relabelings: [{action: replace, targetLabel: cluster, replacement: a}]
    metricRelabelings: [{sourceLabels: [__name__], regex: go_.*, action: drop}]
  rule: {labels: {role: alerts}}
  dashboard: {enabled: true, labels: {grafana_dashboard: null, dashboards: ours}}
`)
	for id, label := range map[string][2]string{
		"ServiceMonitor/vmgroup": {"release", "stack"}, "PrometheusRule/vmgroup": {"role", "alerts"}, "ConfigMap/vmgroup-dashboard": {"dashboards", "ours"},
	} {
		if got := at(all[id], "metadata", "labels", label[0]); got != label[1] {
			t.Errorf("%s: the label %s is %v; want %v", id, label[0], got, label[1])
		}
	}
	wants(t, "the endpoints", at(all["ServiceMonitor/vmgroup"], "spec", "endpoints"), `[{port: health, path: /metrics, interval: 1m, scrapeTimeout: 20s, honorLabels: true,
  relabelings: [{action: replace, targetLabel: cluster, replacement: a}], metricRelabelings: [{sourceLabels: [__name__], regex: go_.*, action: drop}]}]`)
	board, _ := at(all["ConfigMap/vmgroup-dashboard"], "data", "vmgroup.json").(string)
	if !json.Valid([]byte(board)) {
		t.Errorf("the dashboard is %.100q", board)
	}
	if alone := rendering(t, "vmgroup", "networkPolicy: {enabled: false}\nmonitoring: {enabled: true}\n"); alone["NetworkPolicy/vmgroup-metrics"] != nil {
		t.Error("a policy for Prometheus alone shuts Metacontroller out")
	}
}
