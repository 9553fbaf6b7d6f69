package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// controllerCRD replaces Metacontroller's if that isn't given: only the storage of its objects matters here.
const controllerCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: compositecontrollers.metacontroller.k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: metacontroller.k8s.io
  names: {kind: CompositeController, plural: compositecontrollers}
  scope: Cluster
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// site is a cluster to install in: with controllers, and with Metacontroller's objects, but none of ours.
func site(t *testing.T) *kube {
	t.Helper()
	dir, crd := t.TempDir(), metacontrollerCRDs
	if crd == "" {
		crd = filepath.Join(dir, "controller.yaml")
		must.Succeed(t, os.WriteFile(crd, []byte(controllerCRD), 0o600))
	}
	k, err := newKubeWith([]string{crd}, dir, "etcd", "kube-apiserver", "kubectl", "kube-controller-manager")
	must.Succeed(t, err)
	t.Cleanup(k.Close)
	must.Succeed(t, k.StartControllers())
	return k
}

// live makes a group as it is after it has run for a while: with the finalizer and the status that Metacontroller writes. The
// returned text must not change.
func (k *kube) live(t *testing.T) string {
	t.Helper()
	eventually(t, func() string {
		if _, err := k.KubectlWith(webYAML, "apply", "-f", "-"); err != nil {
			return err.Error()
		}
		return ""
	})
	k.kubectl(t, "patch", "vg", "web", "--type=merge", "-p", `{"metadata":{"finalizers":["metacontroller.io/compositecontroller-vmgroup"]}}`)
	k.kubectl(t, "patch", "vg", "web", "--type=merge", "--subresource=status", "-p", `{"status":{"phase":"RUNNING","currentReplicas":3}}`)
	return k.kept(t)
}

func (k *kube) kept(t *testing.T) string {
	t.Helper()
	return k.kubectl(t, "get", "vg", "web", "-o", "jsonpath={.metadata.uid} {.metadata.generation} {.metadata.finalizers} {.metadata.deletionTimestamp} {.spec} {.status}")
}

// survives checks that a step did nothing to the group.
func (k *kube) survives(t *testing.T, step, was string) {
	t.Helper()
	if is := k.kept(t); is != was {
		t.Errorf("%s: group before:\n%s\nnow:\n%s", step, was, is)
	}
}

// remove deletes the group, which ends when Metacontroller removes its finalizer.
func (k *kube) remove(t *testing.T) {
	t.Helper()
	k.kubectl(t, "delete", "vg", "-A", "--all", "--wait=false")
	k.kubectl(t, "patch", "vg", "web", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	k.kubectl(t, "wait", "--for=delete", "vg/web", "--timeout=1m")
}

// guarded waits until the API server refuses to delete the CRD, and checks that the refusal says what to do.
func (k *kube) guarded(t *testing.T) {
	t.Helper()
	eventually(t, func() string { // a policy takes effect a moment after it is stored
		_, err := k.Kubectl("delete", "crd", "vmgroups.vm.codeconnect.vmworld.com", "--dry-run=server")
		if err == nil {
			return "the CRD can be deleted"
		}
		if !strings.Contains(err.Error(), "Delete the VmGroups first") {
			return err.Error()
		}
		return ""
	})
}

const crd, guard = "crd/vmgroups.vm.codeconnect.vmworld.com", "validatingadmissionpolicybinding/vmgroup-crd"

// unguard allows the deletion of the CRD.
func (k *kube) unguard(t *testing.T) {
	t.Helper()
	k.kubectl(t, "delete", guard)
	eventually(t, func() string {
		if _, err := k.Kubectl("delete", crd, "--dry-run=server"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// nothingIsLeft checks that the API server has nothing of ours.
func (k *kube) nothingIsLeft(t *testing.T) {
	t.Helper()
	eventually(t, func() string {
		return k.kubectl(t, "get", "crd,clusterroles,compositecontrollers,validatingadmissionpolicies,validatingadmissionpolicybindings,deployments,services,configmaps", "-A",
			"-l", "app.kubernetes.io/name=vmgroup", "-o", "name")
	})
	if _, err := k.Kubectl("get", crd); err == nil {
		t.Error("the CRD is left")
	}
}

// former is a checkout of the manifests of the last release; before there is one, of those before their last change.
func former(t *testing.T) string {
	t.Helper()
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", repository}, args...)...).Output()
		if err != nil {
			t.Logf("git %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	ref := git("describe", "--tags", "--abbrev=0", "HEAD^")
	if ref == "" {
		ref = git("log", "-1", "--format=%H", "--", "manifests/base", "charts/vmgroup/files/cluster") + "^"
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "former.tar")
	git("archive", "--output", archive, ref, "manifests", "charts/vmgroup/files")
	if err := exec.Command("tar", "-xf", archive, "-C", dir).Run(); err != nil {
		t.Skipf("the history has no earlier manifests: %v", err)
	}
	t.Logf("the earlier manifests are those of %s", ref)
	return filepath.Join(dir, "manifests")
}

func TestGroupsSurviveUpgradeRollbackAndUninstallByKubectl(t *testing.T) {
	k := site(t)
	old, current := former(t), repository+"/manifests"
	k.kubectl(t, "apply", "-k", old)
	was := k.live(t)
	for _, step := range []struct{ name, tree string }{{"upgrade", current}, {"rollback", old}, {"upgrade again", current}} {
		k.kubectl(t, "apply", "-k", step.tree)
		k.survives(t, step.name, was)
		if out := k.kubectl(t, "diff", "-k", step.tree); out != "" {
			t.Errorf("%s: not everything was applied:\n%s", step.name, out)
		}
	}
	k.guarded(t)

	t.Log("uninstall in the wrong order is refused, and a second install restores what is gone")
	_, err := k.Kubectl("delete", "-k", current, "--timeout=2m")
	if err == nil || !strings.Contains(err.Error(), "Delete the VmGroups first") {
		t.Errorf("everything is deleted, although there is a group: %v", err)
	}
	k.survives(t, "uninstall", was)
	k.kubectl(t, "wait", "--for=delete", "namespace/vmgroup-system", "--timeout=2m")
	k.kubectl(t, "apply", "-k", current)
	k.survives(t, "install again", was)
	k.kubectl(t, "get", "compositecontroller", "vmgroup")
	k.guarded(t)

	t.Log("uninstall in the right order")
	k.remove(t)
	k.unguard(t)
	// unguard has already removed the binding.
	k.kubectl(t, "delete", "-k", current, "--ignore-not-found", "--timeout=2m")
	k.nothingIsLeft(t)
}

// helm runs the Helm version that the module release pins, in a namespace.
func (k *kube) helm(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	out, err := k.tryHelm(t, namespace, args...)
	if err != nil {
		t.Fatal(errors.Join(fmt.Errorf("helm %s: %w", strings.Join(args, " "), err), errors.New(out)))
	}
	return out
}

func (k *kube) tryHelm(t *testing.T, namespace string, args ...string) (string, error) {
	t.Helper()
	find := exec.Command("go", "tool", "-n", "helm")
	find.Dir = repository + "/release"
	binary, err := find.Output()
	must.Succeed(t, err)
	c := exec.Command(strings.TrimSpace(string(binary)), append(args, "--namespace", namespace)...)
	c.Env = []string{"HOME=" + k.Dir, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + k.Kubeconfig(cluster.Admin)}
	out, err := c.CombinedOutput()
	return string(out), err
}

// chart is a copy of the chart with a version and changed files.
func chart(t *testing.T, version string, change func(name, text string) string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "vmgroup")
	if out, err := exec.Command("cp", "-r", repository+"/charts/vmgroup", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, change := range map[string]func(string) string{
		"Chart.yaml": func(text string) string { return strings.Replace(text, "0.0.0-dev", version, 1) },
		"files/cluster/" + filepath.Base(crdFile): func(text string) string { return change("crd", text) },
		"values.yaml": func(text string) string { return change("values", text) },
	} {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(path, []byte(change(string(read(t, path)))), 0o600))
	}
	return dir
}

func TestGroupsSurviveUpgradeRollbackAndUninstallByHelm(t *testing.T) {
	k := site(t)
	old := chart(t, "0.1.0", func(name, text string) string {
		if name == "crd" { // the CRD of a release that lacks a column
			return regexp.MustCompile(`(?m)^    - description: Time since the group was created\n(      .*\n)+`).ReplaceAllString(text, "")
		}
		return strings.Replace(text, "\n  VC_FOLDER: vm-operator\n", "\n  VC_FOLDER: former\n", 1)
	})
	current := chart(t, "0.2.0", func(_, text string) string { return text })
	columns := func() string {
		return k.kubectl(t, "get", crd, "-o", "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}")
	}
	folder := func() string {
		return k.kubectl(t, "-n", "vmgroup-system", "get", "configmap", "vmgroup-settings", "-o", "jsonpath={.data.VC_FOLDER}")
	}
	keys := func() string {
		return k.kubectl(t, "-n", "vmgroup-system", "get", "secrets", "vmgroup-tls", "vmgroup-hook-client", "vmgroup-hook-token", "-o", "jsonpath={.items[*].data}")
	}
	k.helm(t, "vmgroup-system", "install", "vmgroup", old, "--create-namespace")
	was, made := k.live(t), keys()
	for _, step := range []struct {
		name, folder string
		age          bool
		do           []string
	}{
		{"upgrade", "vm-operator", true, []string{"upgrade", "vmgroup", current}},
		{"rollback", "former", false, []string{"rollback", "vmgroup"}},
		{"upgrade again", "vm-operator", true, []string{"upgrade", "vmgroup", current}},
	} {
		k.helm(t, "vmgroup-system", step.do...)
		k.survives(t, step.name, was)
		if folder() != step.folder || strings.Contains(columns(), "Age") != step.age {
			t.Errorf("%s: the folder is %s, and the columns are %s", step.name, folder(), columns())
		}
		if keys() != made {
			t.Errorf("%s: the keys have changed", step.name)
		}
	}
	k.guarded(t)

	t.Log("after an uninstall in the wrong order the groups stay, and continue after the next install")
	if out := k.helm(t, "vmgroup-system", "uninstall", "vmgroup"); !strings.Contains(out, "CustomResourceDefinition") {
		t.Errorf("Helm doesn't say what it keeps: %s", out)
	}
	k.survives(t, "uninstall", was)
	k.guarded(t)
	k.helm(t, "vmgroup-system", "install", "vmgroup", current)
	k.survives(t, "install again", was)
	k.kubectl(t, "get", "compositecontroller", "vmgroup")

	t.Log("uninstall in the right order")
	k.remove(t)
	k.helm(t, "vmgroup-system", "uninstall", "vmgroup")
	k.unguard(t)
	k.kubectl(t, "delete", "validatingadmissionpolicy/vmgroup-crd", crd)
	k.nothingIsLeft(t)
}

// The same with VMs: an uninstall with a group leaves its VMs as they are.
func TestTheVMsOfAGroupOutliveItsCompositeController(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "outlives")
	g := r.up(t, namespace, "web", 2)
	r.quiet(t)
	r.kubectl(t, "apply", "-f", repository+"/charts/vmgroup/files/cluster/crdguard.yaml")
	defer r.kubectl(t, "delete", "-f", repository+"/charts/vmgroup/files/cluster/crdguard.yaml")
	r.guarded(t)
	changes := r.changesOfVCenter()
	r.kubectl(t, "delete", "compositecontroller", "vmgroup")
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=3")
	time.Sleep(lease + resync) // nothing should happen
	if n := r.changesOfVCenter(); n != changes {
		t.Errorf("without a CompositeController: %d changes in vCenter", n-changes)
	}
	r.onePerOrdinal(t, namespace, "web", 2)
	r.applyController(t, overlay(t, "components/metacontroller-rights"))
	keeps(t, g, r.settled(t, namespace, "web", 3))
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
	r.onePerOrdinal(t, namespace, "web", 0)
}
