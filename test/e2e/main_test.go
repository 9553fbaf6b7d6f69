// Package e2e shows on a real Kubernetes API server what the other tests assume of the API server: what the CRD accepts and refuses, what is
// stored, and what kubectl shows. With METACONTROLLER=<binary> and METACONTROLLER_CRDS=<file> it also takes groups through their
// lives with a real Metacontroller. `make e2e` runs it.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/dynamic"

	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

const (
	repository = "../.."
	kubernetes = "kubernetes" // the module of the binaries
	crdFile    = repository + "/charts/vmgroup/files/cluster/vm.codeconnect.vmworld.com_vmgroups.yaml"
)

// The paths of Metacontroller's binary and CRDs; without them, the tests that need Metacontroller don't run.
var metacontroller, metacontrollerCRDs = os.Getenv("METACONTROLLER"), os.Getenv("METACONTROLLER_CRDS")

// applyStrategy is how Metacontroller writes children. No test depends on it.
var applyStrategy = flag.String("apply-strategy", "dynamic-apply", "Metacontroller's --apply-strategy: dynamic-apply or server-side-apply")

func TestMain(m *testing.M) {
	if what := os.Getenv(servesVCenter); what != "" {
		fmt.Fprintln(os.Stderr, serveVCenter(what))
		os.Exit(1)
	}
	switch {
	case metacontrollerCRDs == "":
		fmt.Fprintln(os.Stderr, "METACONTROLLER_CRDS=<file> is not set: the CompositeController is not checked")
		fallthrough
	case metacontroller == "":
		fmt.Fprintln(os.Stderr, "METACONTROLLER=<binary> and METACONTROLLER_CRDS=<file> are not both set: tests with Metacontroller are skipped")
	}
	code := m.Run()
	if shared.kube != nil {
		shared.kube.Close()
	}
	if living.rig != nil {
		living.rig.close()
	}
	for _, dir := range []string{shared.dir, living.dir} {
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// kube is a cluster with the CRD of VmGroups, and a client of its administrator.
type kube struct {
	*cluster.Cluster
	dynamic.Interface
	warnings *warnings
}

// shared is the cluster of all tests that need only the API; each uses names, or a namespace, of its own.
var shared struct {
	once sync.Once
	dir  string
	kube *kube
	err  error
}

func api(t *testing.T) *kube {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "vmgroup-e2e-"); shared.err == nil {
			shared.kube, shared.err = newKube(shared.dir, "etcd", "kube-apiserver", "kubectl", "kube-controller-manager")
		}
	})
	if shared.err != nil {
		t.Fatalf("start etcd and kube-apiserver: %v", shared.err)
	}
	return shared.kube
}

// newKube starts a cluster in a directory, with the CRD of VmGroups and, if given, Metacontroller's.
func newKube(dir string, binaries ...string) (*kube, error) {
	crds := []string{crdFile}
	if metacontrollerCRDs != "" {
		crds = append(crds, metacontrollerCRDs)
	}
	return newKubeWith(crds, dir, binaries...)
}

func newKubeWith(crds []string, dir string, binaries ...string) (k *kube, err error) {
	bin, err := cluster.Build(kubernetes, os.Stderr, binaries...)
	if err != nil {
		return nil, err
	}
	k = &kube{warnings: &warnings{}}
	if k.Cluster, err = cluster.New(bin, dir); err != nil {
		return nil, err
	}
	started := k.Cluster
	defer func() {
		if err != nil {
			started.Close()
		}
	}()
	config := k.RESTConfig(cluster.Admin)
	config.WarningHandler = k.warnings
	if k.Interface, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	for _, file := range crds {
		if _, err := k.Kubectl("create", "-f", file); err != nil {
			return nil, err
		}
	}
	_, err = k.Kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	return k, err
}

// kubectl runs kubectl, which must succeed.
func (k *kube) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return k.kubectlWith(t, "", args...)
}

func (k *kube) kubectlWith(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := k.KubectlWith(input, args...)
	must.Succeed(t, err)
	return out
}

// namespace makes a namespace for a test. The namespace stays, because no controller removes namespaces here.
func (k *kube) namespace(t *testing.T, name string) string {
	t.Helper()
	k.kubectl(t, "create", "namespace", name)
	return name
}

// systemNamespace makes sure that the server's namespace exists.
func (k *kube) systemNamespace(t *testing.T) {
	t.Helper()
	if _, err := k.Kubectl("get", "namespace", "vmgroup-system"); err != nil {
		k.namespace(t, "vmgroup-system")
	}
}

// versions lists the resourceVersion and generation of objects. The output of kubectl apply does not suffice: it says "configured"
// whenever kubectl sent a patch, even if the object did not change.
func (k *kube) versions(t *testing.T, what ...string) string {
	t.Helper()
	return k.kubectl(t, append([]string{"get", "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion} {.metadata.generation}{"\n"}{end}{.metadata.resourceVersion}`}, what...)...)
}

// warnings records the API server's warnings.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(code int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, fmt.Sprintf("%d %s", code, text))
}

// take returns the warnings since the last call.
func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := strings.Join(w.said, "\n")
	w.said = nil
	return said
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(repository, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v %v", pattern, paths, err)
	}
	return paths
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must.Succeed(t, err)
	return content
}
