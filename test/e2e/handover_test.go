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
var handover = regexp.MustCompile("(?s)With `kubectl apply`, or Argo CD[^\n]*\n\n *```sh\n(.*?)```\n.*?With `kubectl apply --server-side`[^\n]*\n\n *```sh\n(.*?)```")

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
