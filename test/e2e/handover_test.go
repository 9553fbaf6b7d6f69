package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// handover matches the commands with which the documents hand spec.replicas over to an autoscaler.
var handover = regexp.MustCompile("(?s)With `kubectl apply`, or Argo CD[^\n]*\n\n *```sh\n(.*?)```\n.*?With `kubectl apply --server-side`[^\n]*\n[^\n]*\n\n *```sh\n(.*?)```")

// The steps are those of docs/day-to-day.md, "Scale a group by its load". Without the second step, the fourth one destroys all members but
// one.
func TestReplicasAreHandedOverToAnAutoscalerAsTheDocumentsSay(t *testing.T) {
	k := api(t)
	bin, err := cluster.Build(kubernetes, os.Stderr, "kubectl")
	must.Succeed(t, err)
	found := handover.FindStringSubmatch(string(read(t, repository+"/docs/day-to-day.md")))
	if found == nil {
		t.Fatal("the documents have no commands that hand spec.replicas over")
	}
	const with, without = "spec: {cpu: 1, memory: 1, replicas: 3, template: vm-operator-template}\n", "spec: {cpu: 1, memory: 2, template: vm-operator-template}\n"
	const head = "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\nmetadata: {name: web, namespace: NAMESPACE}\n"
	for name, c := range map[string]struct {
		namespace string
		apply     []string
		commands  string
		scaled    bool // another client has scaled the group before
		want      string
	}{
		"kubectl apply":                   {"hand-over-1", nil, found[1], true, "8"},
		"kubectl apply before it scaled":  {"hand-over-2", nil, found[1], false, "3"},
		"server-side apply":               {"hand-over-3", []string{"--server-side"}, found[2], true, "8"},
		"server-side apply before that":   {"hand-over-4", []string{"--server-side"}, found[2], false, "3"},
		"none as the documents warn":      {"hand-over-5", nil, "", true, "1"},
		"none with server-side apply too": {"hand-over-6", []string{"--server-side"}, "", false, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			of := []string{"-n", k.namespace(t, c.namespace)}
			dir := t.TempDir()
			file := filepath.Join(dir, "web.yaml")
			write(t, file, strings.ReplaceAll(head, "NAMESPACE", c.namespace)+with)
			applied := func() { k.kubectl(t, append(append(of, "apply", "-f", file), c.apply...)...) }
			applied()
			if c.scaled {
				k.kubectl(t, append(of, "scale", "vg/web", "--replicas=8")...)
			}

			write(t, file, strings.ReplaceAll(head, "NAMESPACE", c.namespace)+without)
			if c.commands != "" {
				shell := exec.Command("sh", "-ec", strings.NewReplacer("\n   ", "\n", "-n shop", "-n "+c.namespace).Replace("\n"+c.commands))
				shell.Dir = dir
				shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+k.Kubeconfig(cluster.Admin))
				if out, err := shell.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				differs, err := k.Kubectl(append(append(of, "diff", "-f", file), c.apply...)...)
				if err != nil { // kubectl diff exits with 1 if there are differences
					differs += err.Error()
				}
				if !regexp.MustCompile(`(?m)^\s*\+ +memory: 2$`).MatchString(differs) || regexp.MustCompile(`(?m)^\s*[-+] +replicas`).MatchString(differs) {
					t.Errorf("the differences are\n%s", differs)
				}
			}
			applied()
			if got := k.kubectl(t, append(of, "get", "vg", "web", "-o", "jsonpath={.spec.replicas} {.spec.memory}")...); got != c.want+" 2" {
				t.Errorf("the group has %s replicas and GB, want %s and 2", got, c.want)
			}
			if c.want == "1" {
				return
			}
			k.kubectl(t, append(of, "scale", "vg/web", "--replicas=5")...)
			applied()
			if got := k.kubectl(t, append(of, "get", "vg", "web", "-o", "jsonpath={.spec.replicas}")...); got != "5" {
				t.Errorf("after another apply, the group has %s replicas, want 5", got)
			}
		})
	}
}

// managers matches the command with which the documents ask how Helm writes a group.
var managers = regexp.MustCompile("(?m)^kubectl (-n shop get vg web --show-managed-fields -o )jsonpath='(.*)'$")

// Helm itself writes the groups. As the documents say, a chart keeps replicas where Helm doesn't use server-side apply, and otherwise drops it after the
// same commands as for kubectl.
func TestReplicasThatHelmWritesAreHandedOverAsTheDocumentsSay(t *testing.T) {
	k := api(t)
	bin, err := cluster.Build(kubernetes, os.Stderr, "kubectl")
	must.Succeed(t, err)
	page := string(read(t, repository+"/docs/day-to-day.md"))
	commands, ask := handover.FindStringSubmatch(page)[2], managers.FindStringSubmatch(page)
	if ask == nil {
		t.Fatal("the documents have no command that asks how Helm writes a group")
	}
	const group = "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\nmetadata: {name: web}\n" +
		"spec: {cpu: 1, memory: {{ .Values.memory }}, {{ if .Values.replicas }}replicas: {{ .Values.replicas }}, {{ end }}template: vm-operator-template}\n"
	for name, c := range map[string]struct {
		namespace, serverSide, writes string
		keep, handed, scaled          bool
		want                          string // empty: the upgrade is refused
	}{
		"client-side, the chart keeps it":                       {"helm-1", "false", "helm Update", true, false, true, "8"},
		"client-side, the chart keeps it, before it scaled":     {"helm-2", "false", "helm Update", true, false, false, "3"},
		"client-side, dropped, as the documents warn":           {"helm-3", "false", "helm Update", false, false, true, "1"},
		"client-side, handed over and dropped, as they warn":    {"helm-4", "false", "helm Update", false, true, true, "1"},
		"server-side, handed over and dropped":                  {"helm-5", "true", "helm Apply", false, true, true, "8"},
		"server-side, handed over and dropped before it scaled": {"helm-6", "true", "helm Apply", false, true, false, "3"},
		"server-side, the chart keeps it":                       {"helm-7", "true", "helm Apply", true, false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			of := []string{"-n", k.namespace(t, c.namespace)}
			dir := t.TempDir()
			must.Succeed(t, os.Mkdir(filepath.Join(dir, "templates"), 0o700))
			write(t, filepath.Join(dir, "Chart.yaml"), "apiVersion: v2\nname: web\nversion: 0.1.0\n")
			write(t, filepath.Join(dir, "values.yaml"), "memory: 1\nreplicas: 3\n")
			write(t, filepath.Join(dir, "templates", "web.yaml"), group)
			spec := func() string {
				return k.kubectl(t, append(of, "get", "vg", "web", "-o", "jsonpath={.spec.replicas} {.spec.memory}")...)
			}
			k.helm(t, c.namespace, "install", "web", dir, "--server-side="+c.serverSide)
			if got := k.kubectl(t, append(append(of, strings.Fields(ask[1][len("-n shop "):])...), "jsonpath="+ask[2])...); !strings.Contains(got, c.writes) {
				t.Errorf("the managers are %q, want %s among them", got, c.writes)
			}
			if c.scaled {
				k.kubectl(t, append(of, "scale", "vg/web", "--replicas=8")...)
			}
			if c.handed {
				shell := exec.Command("sh", "-ec", strings.NewReplacer("\n   ", "\n", "-n shop", "-n "+c.namespace).Replace("\n"+commands))
				shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+k.Kubeconfig(cluster.Admin))
				if out, err := shell.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			upgrade := []string{"upgrade", "web", dir, "--set", "memory=2"}
			if !c.keep {
				upgrade = append(upgrade, "--set", "replicas=null")
			}
			if c.want == "" {
				if out, err := k.tryHelm(t, c.namespace, upgrade...); err == nil || !strings.Contains(out, "conflict") {
					t.Errorf("%v: %s; want a conflict", err, out)
				}
				return
			}
			k.helm(t, c.namespace, upgrade...)
			if got := spec(); got != c.want+" 2" {
				t.Errorf("the group has %s replicas and GB, want %s and 2", got, c.want)
			}
			if c.want == "1" {
				return
			}
			k.kubectl(t, append(of, "scale", "vg/web", "--replicas=5")...)
			upgrade[4] = "memory=4"
			k.helm(t, c.namespace, upgrade...)
			if got := spec(); got != "5 4" {
				t.Errorf("after another upgrade, the group has %s replicas and GB, want 5 and 4", got)
			}
			k.helm(t, c.namespace, "rollback", "web")
			if got := spec(); got != "5 2" {
				t.Errorf("after the rollback, the group has %s replicas and GB, want 5 and 2", got)
			}
		})
	}
}
