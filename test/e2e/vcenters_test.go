package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// vcenterLabel says which install serves a group.
const vcenterLabel = "vm.codeconnect.vmworld.com/vcenter"

// knowing is an overlay of the default install whose policies list the names of other installs.
func knowing(t *testing.T, names ...string) string {
	t.Helper()
	tree := overlay(t, "components/vcenters")
	path := filepath.Join(tree, "kustomization.yaml")
	patch := "patches:\n- target: {kind: ValidatingAdmissionPolicy, name: vmgroup-vcenters|vmgroup-selectors}\n  patch: |\n    - op: replace\n" +
		"      path: /spec/variables/0/expression\n      value: \"['" + strings.Join(names, "', '") + "']\"\n"
	must.Succeed(t, os.WriteFile(path, append(read(t, path), patch...), 0o600))
	return tree
}

// another is an overlay that makes an install for another vCenter.
func another(t *testing.T, name string) string {
	t.Helper()
	tree := overlay(t, "vcenter")
	path := filepath.Join(tree, "kustomization.yaml")
	parameters := strings.Replace(string(read(t, repository+"/manifests/vcenter/vcenter.yaml")), "us-east", name, 1)
	for path, text := range map[string]string{
		path: strings.Replace(string(read(t, path)), "/manifests]", "/manifests, vcenter.yaml]", 1), filepath.Join(tree, "vcenter.yaml"): parameters,
	} {
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return tree
}

// controller is the CompositeController of a tree.
func (k *kube) controller(t *testing.T, tree string) string {
	t.Helper()
	for _, text := range strings.Split(k.kubectl(t, "kustomize", tree), "\n---\n") {
		if strings.Contains(text, "\nkind: CompositeController\n") {
			return text
		}
	}
	t.Fatalf("kustomize prints no CompositeController for %s", tree)
	return ""
}

// refuses waits until the API server refuses an object, and checks that it says why; a policy takes effect a moment after it is stored.
func (k *kube) refuses(t *testing.T, what, input string, args []string, says ...string) {
	t.Helper()
	eventually(t, func() string {
		out, err := k.KubectlWith(input, append(args, "--dry-run=server")...)
		if err == nil {
			return what + " is accepted: " + out
		}
		for _, text := range says {
			if !strings.Contains(err.Error(), text) {
				return fmt.Sprintf("%s: the refusal doesn't say %q: %s", what, text, err)
			}
		}
		return ""
	})
}

// labeled is a group, with a label if value isn't empty.
func labeled(name, value string) string {
	if value == "" {
		return strings.Replace(webYAML, "{name: web}", "{name: "+name+"}", 1)
	}
	return strings.Replace(webYAML, "{name: web}", "{name: "+name+", labels: {"+vcenterLabel+": "+value+"}}", 1)
}

func TestTheLabelOfAGroupThatMayHaveVMsCannotChange(t *testing.T) {
	k := site(t)
	k.kubectl(t, "apply", "-k", repository+"/manifests")
	was := k.live(t)
	label := func(value string) []string {
		return []string{"label", "vg", "web", vcenterLabel + value, "--overwrite"}
	}
	k.refuses(t, "another label", "", label("=east"), vcenterLabel, "default/web", "from none to 'east'", "Scale the group (and spec.standby) to 0", "Move a group")
	k.refuses(t, "a label without a value, which the default install doesn't select", "", label("="), "from none to ''")
	k.survives(t, "refused", was)
	for step, patch := range map[string]string{
		"the finalizer": `{"metadata":{"finalizers":["metacontroller.io/compositecontroller-vmgroup","example.com/other"]}}`,
		"another label": `{"metadata":{"labels":{"team":"a"}}}`,
		"the spec":      `{"spec":{"replicas":4}}`,
	} {
		if _, err := k.Kubectl("patch", "vg", "web", "--type=merge", "-p", patch, "--dry-run=server"); err != nil {
			t.Errorf("%s can't change: %v", step, err)
		}
	}
	status := func(text string) {
		k.kubectl(t, "patch", "vg", "web", "--type=merge", "--subresource=status", "-p", `{"status":`+text+`}`)
	}
	t.Log("without Metacontroller's finalizer, which a user can remove, the status shows that there are VMs")
	k.kubectl(t, "patch", "vg", "web", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	const of = `"name":"web-0","moRef":"vm-7","ordinal":0`
	for what, served := range map[string]string{
		"members": `{` + of + `,"ready":true}`, "standby": `{` + of + `,"ready":true}`, "quarantined": `{` + of + `,"since":"2026-01-01T00:00:00Z"}`,
		"disks": `{"name":"data","ordinal":0,"id":"disk-1","datastore":"datastore-7","sizeGiB":10,"state":"Detached"}`,
	} {
		status(`{"` + what + `":[` + served + `]}`)
		k.refuses(t, "another label of a group with "+what, "", label("=east"), "from none to 'east'")
		status(`{"` + what + `":null}`)
	}
	k.passes(t, "another label of a group that no install serves", "", label("=east")...)
	k.kubectl(t, "patch", "vg", "web", "--type=merge", "-p", `{"metadata":{"finalizers":["metacontroller.io/compositecontroller-vmgroup"]}}`)
	k.kubectl(t, "scale", "vg/web", "--replicas=0")
	k.refuses(t, "scaled, but not there yet", "", label("=east"), "from none to 'east'")
	generation := k.kubectl(t, "get", "vg", "web", "-o", "jsonpath={.metadata.generation}")
	status(`{"phase":"RUNNING","currentReplicas":0,"observedGeneration":` + generation + `,"quarantined":[{"name":"web-0","moRef":"vm-7","ordinal":0,"since":"2026-01-01T00:00:00Z"}]}`)
	k.refuses(t, "a VM in quarantine", "", label("=east"), "from none to 'east'")
	status(`{"quarantined":null,"disks":[{"name":"data","ordinal":0,"id":"disk-1","datastore":"datastore-7","sizeGiB":10,"state":"Detached"}]}`)
	k.refuses(t, "a persistent disk without a VM", "", label("=east"), "from none to 'east'", "has no persistent disks")
	status(`{"disks":null}`)
	k.kubectl(t, label("=east")...)
	k.kubectl(t, "scale", "vg/web", "--replicas=1")
	k.refuses(t, "no label", "", label("-"), "from 'east' to none")

	t.Log("a group that no install serves yet can change it")
	k.kubectlWith(t, labeled("new", "wset"), "create", "-f", "-")
	k.kubectl(t, "label", "vg", "new", vcenterLabel+"=west", "--overwrite")
	k.remove(t)
}

// The command of docs/vcenters.md compares the groups' labels with the CompositeControllers.
func TestKubectlFindsTheGroupsThatNoInstallServes(t *testing.T) {
	k := site(t)
	k.kubectl(t, "apply", "-k", repository+"/manifests")
	namespace := k.namespace(t, "unserved")
	for name, value := range map[string]string{"here": "", "blank": `""`, "there": "east", "lost": "esat"} {
		k.kubectlWith(t, labeled(name, value), "-n", namespace, "create", "-f", "-")
	}
	for _, name := range []string{"here", "there"} {
		k.kubectl(t, "-n", namespace, "patch", "vg", name, "--type=merge", "--subresource=status", "-p", `{"status":{"phase":"RUNNING","currentReplicas":3}}`)
	}
	command := regexp.MustCompile(`kubectl (get compositecontrollers,vg -A -o) (go-template=)'(.*)'\n`).FindStringSubmatch(string(read(t, repository+"/docs/vcenters.md")))
	if command == nil {
		t.Fatal("docs/vcenters.md has no such command")
	}
	lists := func(when string, want ...string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(k.kubectl(t, append(strings.Fields(command[1]), command[2]+command[3])...)) {
			got = append(got, strings.TrimSpace(strings.TrimPrefix(line, namespace+"/")))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s, the command lists %q, want %q", when, got, want)
		}
	}
	lists("with the default install", "blank vmgroup-", "lost vmgroup-esat", "there vmgroup-east RUNNING")
	k.kubectlWith(t, k.controller(t, another(t, "east")), "apply", "-f", "-")
	lists("with two installs", "blank vmgroup-", "lost vmgroup-esat")
	k.kubectl(t, "delete", "compositecontroller", "--all")
	lists("without an install", "blank vmgroup-", "here vmgroup RUNNING", "lost vmgroup-esat", "there vmgroup-east RUNNING")
}

func TestTheAPIServerKnowsTheInstalls(t *testing.T) {
	k := site(t)
	k.kubectl(t, "apply", "-k", repository+"/manifests")
	k.kubectlWith(t, labeled("old", "north"), "create", "-f", "-")
	k.kubectl(t, "apply", "-k", knowing(t, "east", "west"))
	create := []string{"create", "-f", "-"}
	k.refuses(t, "a label that names no install", labeled("new", "esat"), create, "default/new", "'esat'", "installs for east, west", "docs/vcenters.md")
	k.refuses(t, "such a label for a group that exists", "", []string{"label", "vg", "old", vcenterLabel + "=south", "--overwrite"}, "'south'")
	for _, value := range []string{"", "east", "west"} {
		if _, err := k.KubectlWith(labeled("new", value), append(create, "--dry-run=server")...); err != nil {
			t.Errorf("the label %q: %v", value, err)
		}
	}
	k.kubectl(t, "scale", "vg/old", "--replicas=4") // this group existed before the list

	east := k.controller(t, another(t, "east"))
	k.kubectlWith(t, east, "apply", "-f", "-")
	apply := []string{"apply", "-f", "-"}
	for what, text := range map[string]string{
		"the selector of another install": strings.Replace(east, ": east", ": west", 1),
		"a selector of two":               strings.Replace(east, "      matchLabels:", "      matchExpressions: [{key: team, operator: Exists}]\n      matchLabels:", 1),
		"another name":                    strings.Replace(east, "name: vmgroup-east\n", "name: vmgroup-west\n", 1),
		"a name of one's own":             strings.Replace(east, "name: vmgroup-east\n", "name: east\n", 1),
		"no selector":                     strings.NewReplacer("    labelSelector:\n", "", "      matchLabels:\n", "", "        "+vcenterLabel+": east\n", "").Replace(east),
		"the default one, for all":        strings.Replace(k.controller(t, repository+"/manifests"), "operator: DoesNotExist", "operator: Exists", 1),
	} {
		k.refuses(t, what, text, apply, "labelSelector", "follow from its name", "docs/vcenters.md")
	}
	k.refuses(t, "an install that is not in the list", k.controller(t, another(t, "north")), create, "vmgroup-north is not one of the installs for east, west")
	k.kubectlWith(t, strings.ReplaceAll(strings.Replace(east, "resource: vmgroups", "resource: others", 1), "vmgroup-east", "others"), "create", "-f", "-")
	k.kubectl(t, "delete", "compositecontroller", "vmgroup-east")
}

// On the real Metacontroller: the default install and one for another vCenter, from an overlay with its name and address.
func TestALabelSaysWhichInstallServesAGroup(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "by-label")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	r.kubectl(t, "apply", "-f", repository+"/charts/vmgroup/files/cluster/vcenterguard.yaml")
	defer r.kubectl(t, "delete", "-f", repository+"/charts/vmgroup/files/cluster/vcenterguard.yaml")
	east := r.install(t)
	for name, value := range map[string]string{"here": "", "there": "east", "nowhere": "esat"} {
		r.kubectlWith(t, strings.Replace(labeled(name, value), "replicas: 3", "replicas: 2", 1), "-n", namespace, "apply", "-f", "-")
	}
	here, there := r.settled(t, namespace, "here", 2), r.settled(t, namespace, "there", 2)
	for _, in := range []struct {
		*rig
		name string
		want int
	}{{r, "here", 2}, {east, "here", 0}, {r, "there", 0}, {east, "there", 2}, {r, "nowhere", 0}, {east, "nowhere", 0}} {
		in.onePerOrdinal(t, namespace, in.name, in.want)
	}
	t.Logf("as kubectl shows it:\n%s", k("get", "vg", "-L", vcenterLabel))
	if g := r.group(t, namespace, "nowhere"); g.Status.Phase != "" || len(g.Finalizers) > 0 {
		t.Errorf("an install serves the group whose label names no install: %q, %v", g.Status.Phase, g.Finalizers)
	}

	label := func(name, value string) []string {
		return []string{"-n", namespace, "label", "vg", name, vcenterLabel + value, "--overwrite"}
	}
	r.refuses(t, "the label of a group with VMs", "", label("here", "=east"), namespace+"/here", "from none to 'east'")
	r.refuses(t, "the label of a group of the other install", "", label("there", "-"), "from 'east' to none")
	k("label", "vg", "nowhere", vcenterLabel+"=east", "--overwrite")
	r.settled(t, namespace, "nowhere", 2)
	east.onePerOrdinal(t, namespace, "nowhere", 2)

	t.Log("a group moves by way of 0")
	k("scale", "vg/nowhere", "--replicas=0")
	r.settled(t, namespace, "nowhere", 0)
	k("label", "vg", "nowhere", vcenterLabel+"-")
	k("scale", "vg/nowhere", "--replicas=1")
	moved := r.settled(t, namespace, "nowhere", 1)
	r.onePerOrdinal(t, namespace, "nowhere", 1)
	east.onePerOrdinal(t, namespace, "nowhere", 0)
	eventually(t, func() string {
		if fs := r.group(t, namespace, "nowhere").Finalizers; len(fs) != 1 || fs[0] != "metacontroller.io/compositecontroller-vmgroup" {
			return fmt.Sprintf("the group has the finalizers %v", fs)
		}
		return ""
	})

	t.Log("an install that is removed before its groups leaves everything as it is, and continues when it is back")
	changes := east.changesOfVCenter()
	r.kubectl(t, "delete", "compositecontroller", "vmgroup-east")
	k("delete", "vg", "there", "--wait=false")
	k("delete", "vg", "nowhere", "--timeout=2m")
	keeps(t, here, r.settled(t, namespace, "here", 2))
	if n := east.changesOfVCenter(); n != changes {
		t.Errorf("%d changes in the vCenter whose install was removed", n-changes)
	}
	keeps(t, there, r.group(t, namespace, "there"))
	east.serve(t)
	k("wait", "--for=delete", "vg/there", "--timeout=2m")
	east.onePerOrdinal(t, namespace, "there", 0)
	k("delete", "vg", "--all", "--timeout=2m")
	r.onePerOrdinal(t, namespace, "nowhere", 0)
	_ = moved
}
