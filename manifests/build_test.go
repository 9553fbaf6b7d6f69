// Package manifests_test checks what `kubectl apply -k` would send, built here as kubectl builds it: that it parses into
// Kubernetes' own types without an unknown key, and is what the manifests' comments promise.
package manifests_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// trees are all kustomizations that a user can build, by name: the kustomization in the file system of checkout.
var trees = map[string]string{
	"root":                  "/manifests",
	"simulator":             "/manifests/overlays/simulator",
	"monitoring":            "/with/monitoring",
	"dashboard":             "/with/dashboard",
	"vcenter-ca":            "/with/vcenter-ca",
	"metacontroller-rights": "/with/metacontroller-rights",
	"cert-manager":          "/with/cert-manager",
	"mtls":                  "/with/mtls",
	"vcenters":              "/with/vcenters",
	"tenants":               "/with/tenants",
	"everything":            "/with/everything",
}

// checkout is this directory as /manifests with what it shares with the chart, and next to it an overlay for each component, as a user would
// write one.
func checkout(t *testing.T) filesys.FileSystem {
	t.Helper()
	fsys := filesys.MakeFsInMemory()
	write := func(path, content string) {
		must.Succeed(t, fsys.WriteFile(path, []byte(content)))
	}
	for _, path := range files(t) {
		content, err := os.ReadFile(path)
		must.Succeed(t, err)
		write(filepath.Join("/manifests", path), string(content))
	}
	const overlay = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../manifests]\ncomponents:\n"
	components, all := []string{"monitoring", "dashboard", "vcenter-ca", "metacontroller-rights", "cert-manager", "mtls", "vcenters", "tenants"}, ""
	for _, c := range components {
		line := "- ../../manifests/components/" + c + "\n"
		write("/with/"+c+"/kustomization.yaml", overlay+line)
		all += line
	}
	const site = "configMapGenerator: [{name: vmgroup-settings, namespace: vmgroup-system, behavior: merge, literals: [VC_DATACENTER=DC0]}]\n" +
		"images: [{name: vmgroup, newName: registry.example.com/vmgroup, newTag: v1.2.3}]\n"
	write("/with/everything/kustomization.yaml", overlay+all+site)
	parameters, err := fsys.ReadFile("/manifests/vcenter/vcenter.yaml")
	must.Succeed(t, err)
	for name, components := range map[string][2]string{"root": {}, "everything": {all, site}} {
		write("/another/"+name+"/vcenter.yaml", string(parameters))
		write("/another/"+name+"/kustomization.yaml", strings.Replace(overlay, "[../../manifests]", "[../../manifests, vcenter.yaml]", 1)+
			components[0]+"- ../../manifests/vcenter\n"+components[1])
	}
	return fsys
}

// files are the paths of all YAML and JSON files below this directory, of those that it shares with the chart, and of what kustomize
// reads with them.
func files(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, root := range []string{".", "../charts/vmgroup/files"} {
		if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch filepath.Ext(path) {
			case ".yaml", ".json", ".env":
				paths = append(paths, path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// built is a tree as it would be applied: each object as JSON, by "Kind/name".
type built map[string][]byte

// builds caches the trees.
var builds sync.Map

// build builds the tree with a name. Callers must not change its objects, which the cache shares.
func build(t *testing.T, tree string) built {
	t.Helper()
	if before, there := builds.Load(tree); there {
		return before.(built)
	}
	objects := buildNow(t, trees[tree])
	builds.Store(tree, objects)
	return objects
}

// buildNow builds the kustomization at a path in the file system of checkout.
func buildNow(t *testing.T, path string) built {
	t.Helper()
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsRootOnly // as kubectl apply -k
	resources, err := krusty.MakeKustomizer(options).Run(checkout(t), path)
	if err != nil {
		t.Fatalf("kustomize build %s: %v", path, err)
	}
	objects := built{}
	for _, r := range resources.Resources() {
		raw, err := r.MarshalJSON()
		must.Succeed(t, err)
		objects[r.GetKind()+"/"+r.GetName()] = raw
	}
	return objects
}

// decode reads the named object into T, which must know every key of it.
func decode[T any](t *testing.T, objects built, id string) T {
	t.Helper()
	raw, ok := objects[id]
	if !ok {
		t.Fatalf("%s doesn't exist", id)
	}
	return strict[T](t, raw)
}

func strict[T any](t *testing.T, raw []byte) T {
	t.Helper()
	var v T
	must.Succeed(t, yaml.UnmarshalStrict(raw, &v))
	return v
}

func TestEveryTreeBuildsIntoKnownTypesWithoutAnUnknownKey(t *testing.T) {
	for tree := range trees {
		t.Run(tree, func(t *testing.T) {
			objects := build(t, tree)
			for id := range objects {
				switch kind, _, _ := strings.Cut(id, "/"); kind {
				case "Namespace":
					decode[corev1.Namespace](t, objects, id)
				case "ServiceAccount":
					decode[corev1.ServiceAccount](t, objects, id)
				case "ConfigMap":
					decode[corev1.ConfigMap](t, objects, id)
				case "Service":
					decode[corev1.Service](t, objects, id)
				case "Deployment":
					decode[appsv1.Deployment](t, objects, id)
				case "NetworkPolicy":
					decode[networkingv1.NetworkPolicy](t, objects, id)
				case "ClusterRole":
					decode[rbacv1.ClusterRole](t, objects, id)
				case "ClusterRoleBinding":
					decode[rbacv1.ClusterRoleBinding](t, objects, id)
				case "CustomResourceDefinition":
					decode[apiextensionsv1.CustomResourceDefinition](t, objects, id)
				case "ValidatingAdmissionPolicy":
					decode[admissionv1.ValidatingAdmissionPolicy](t, objects, id)
				case "ValidatingAdmissionPolicyBinding":
					decode[admissionv1.ValidatingAdmissionPolicyBinding](t, objects, id)
				case "CompositeController":
					decode[compositeController](t, objects, id)
				case "ServiceMonitor", "PrometheusRule", "Issuer", "Certificate":
					decode[map[string]any](t, objects, id)
				default:
					t.Errorf("%s: no schema to check it against", id)
				}
			}
		})
	}
}

// The kustomize of kubectl 1.32 panics otherwise (kubernetes/kubernetes#131939).
func TestAFileDeletesNoMoreThanOneObject(t *testing.T) {
	for _, path := range files(t) {
		text, err := os.ReadFile(path)
		must.Succeed(t, err)
		if n := strings.Count("\n"+string(text), "\n$patch: delete"); n > 1 {
			t.Errorf("%s deletes %d objects: give each a file", path, n)
		}
	}
}

func TestTheBaseHasNoSecretAndNoKindThatAClusterMayLack(t *testing.T) {
	for id := range build(t, "root") {
		switch kind, _, _ := strings.Cut(id, "/"); kind {
		case "Secret", "ServiceMonitor", "PrometheusRule", "Issuer", "Certificate", "VmGroup":
			t.Errorf("%s is in the base", id)
		}
	}
}

// Deleting the CRD deletes all groups, and their VMs, so it must be guarded unless the VMs are the simulator's.
func TestTheCRDIsGuardedWhereVMsMayBeLost(t *testing.T) {
	for tree := range trees {
		_, guarded := build(t, tree)["ValidatingAdmissionPolicyBinding/vmgroup-crd"]
		if guarded != (tree != "simulator") {
			t.Errorf("%s: CRD guarded: %t; want %t", tree, guarded, tree != "simulator")
		}
	}
	crd := decode[apiextensionsv1.CustomResourceDefinition](t, build(t, "root"), "CustomResourceDefinition/vmgroups.vm.codeconnect.vmworld.com")
	policy := decode[admissionv1.ValidatingAdmissionPolicy](t, build(t, "root"), "ValidatingAdmissionPolicy/vmgroup-crd")
	if rules := policy.Spec.MatchConstraints.ResourceRules; len(rules) != 1 || !slices.Equal(rules[0].ResourceNames, []string{crd.Name}) {
		t.Errorf("the guard is for %v, but the CRD is %s", rules, crd.Name)
	}
	for _, annotations := range []map[string]string{crd.Annotations, policy.Annotations} {
		if annotations["helm.sh/resource-policy"] != "keep" {
			t.Error("Helm removes the CRD or its guard when it uninstalls the chart")
		}
	}
}

// yamlLoose reads some fields of a kind without Go types.
func yamlLoose(raw []byte, into any) error { return yaml.Unmarshal(raw, into) }
