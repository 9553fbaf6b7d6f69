package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/vim25/mo"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// timeout is how long a test waits for what takes seconds on an idle machine.
const timeout = 3 * time.Minute

// resync is how often the server asks to be called for a settled group.
const resync = 10 * time.Second

// rig is everything that VmGroups need: a cluster with controllers, Metacontroller with the least rights, the server behind TLS and
// a token, as in manifests/, and a vCenter that outlives the server.
type rig struct {
	*kube
	vcenter        *vcsim.VCenter
	hooks, health  string // host:port of the server
	server         *cluster.Process
	metacontroller *cluster.Process
	ports          []int            // of Metacontroller: metrics, health
	simulator      *cluster.Process // set only by the tests of figures
	serves         []string         // the flags of the server in figures
}

var living struct {
	once  sync.Once
	dir   string
	rig   *rig
	ready bool
}

// life returns the rig, which the first test that needs it starts.
func life(t *testing.T) *rig {
	t.Helper()
	if metacontroller == "" || metacontrollerCRDs == "" {
		t.Skip("METACONTROLLER=<binary> and METACONTROLLER_CRDS=<file> are not set")
	}
	living.once.Do(func() {
		var err error
		if living.dir, err = os.MkdirTemp("", "vmgroup-e2e-"); err != nil {
			t.Fatal(err)
		}
		r := &rig{}
		if r.kube, err = newKube(living.dir, "etcd", "kube-apiserver", "kubectl", "kube-controller-manager"); err != nil {
			t.Fatal(err)
		}
		living.rig = r // from now on, TestMain closes the rig at the end
		r.setUp(t)
		living.ready = true
	})
	r := living.rig
	if !living.ready {
		t.Fatal("the rig is not set up")
	}
	t.Cleanup(func() {
		if t.Failed() {
			// The logs are cut, so that the failure above them stays visible.
			t.Logf("the end of vmgroup's log:\n%s\nthe last complaints of Metacontroller:\n%s", last(20, r.server.Log(), `"level":"debug"`), last(5, r.metacontroller.Log(), `"level":"info"`))
		}
	})
	return r
}

// last returns the last lines of a log, without those that contain a certain text, each cut to a readable length.
func last(n int, log, without string) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(log), "\n"), func(line string) bool { return strings.Contains(line, without) })
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		lines[i] = line[:min(len(line), 300)]
	}
	return strings.Join(lines, "\n")
}

func (r *rig) close() {
	for _, p := range []*cluster.Process{r.metacontroller, r.server} {
		if p != nil {
			p.Kill()
		}
	}
	r.Close()
	if r.vcenter != nil {
		_ = r.vcenter.Close()
	}
}

func (r *rig) path(name string) string { return filepath.Join(r.Dir, name) }

// vcenterConfig describes the vCenter.
var vcenterConfig = vcsim.Config{
	Templates: []string{"vm-operator-template", "vm-operator-template-2"}, Hosts: 3,
	Latency: vcsim.Latency{Clone: 300 * time.Millisecond, Power: 100 * time.Millisecond},
	Guest:   vcsim.Guest{Tools: true, Boot: 100 * time.Millisecond, IP: 100 * time.Millisecond},
}

func (r *rig) setUp(t *testing.T) {
	t.Helper()
	must.Succeed(t, r.StartControllers())
	var err error
	r.vcenter, err = vcsim.Start(vcenterConfig)
	must.Succeed(t, err)
	ports, err := cluster.FreePorts(4)
	must.Succeed(t, err)
	r.hooks, r.health, r.ports = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1]), ports[2:]
	certificates(t, r.Dir)
	write(t, r.path("token"), rand.Text())
	build := exec.Command("go", "build", "-o", r.path("vmgroup"), "./cmd/vmgroup") // with the flags of make in GOFLAGS, so that the cache has its packages
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.startServer(t)

	r.systemNamespace(t)
	r.secrets(t, "vmgroup-system")
	r.kubectlWith(t, rightsOfItsOwn, "create", "-f", "-")
	r.applyController(t, overlay(t, "components/metacontroller-rights"))
	r.startMetacontroller(t)
}

// secrets makes the Secrets that Metacontroller reads for the install in a namespace.
func (r *rig) secrets(t *testing.T, namespace string) {
	t.Helper()
	r.kubectl(t, "-n", namespace, "create", "secret", "generic", "vmgroup-hook-token", "--from-file=token="+r.path("token"))
	r.kubectl(t, "-n", namespace, "create", "secret", "generic", "vmgroup-hook-client",
		"--from-file=ca.crt="+r.path("ca.crt"), "--from-file=tls.crt="+r.path("client.crt"), "--from-file=tls.key="+r.path("client.key"))
}

// rightsOfItsOwn are what Metacontroller needs for itself, in addition to those for VmGroups.
const rightsOfItsOwn = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metacontroller}
rules:
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list, watch]}
- {apiGroups: [metacontroller.k8s.io], resources: ["*"], verbs: ["*"]}
- {apiGroups: ["", events.k8s.io], resources: [events], verbs: [create, patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metacontroller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metacontroller}
subjects: [{kind: ServiceAccount, name: metacontroller, namespace: metacontroller}]
`

// applyController applies the CompositeController of a tree, and Metacontroller's rights if it has some. It changes only the
// address of the server.
func (r *rig) applyController(t *testing.T, tree string, also ...string) {
	t.Helper()
	var ours []string
	for _, text := range strings.Split(r.kubectl(t, "kustomize", tree), "\n---\n") {
		if strings.Contains(text, "\nkind: CompositeController\n") || strings.Contains(text, "\nkind: ClusterRole") {
			ours = append(ours, text)
		}
	}
	all := strings.Join(ours, "\n---\n")
	there := regexp.MustCompile(`vmgroup\.vmgroup-\w+\.svc:8443`).FindString(all)
	if n := strings.Count(all, there); n != 4 { // three hooks, and their endpointConfig
		t.Fatalf("%s occurs %d times in\n%s", there, n, all)
	}
	r.kubectlWith(t, strings.NewReplacer(append([]string{there, r.hooks}, also...)...).Replace(all), "apply", "-f", "-")
}

// startServer starts the server, which must not run yet, as the Deployment does, and waits until it is ready.
func (r *rig) startServer(t *testing.T, also ...string) {
	t.Helper()
	u := r.vcenter.URL()
	password, _ := u.User.Password()
	write(t, r.path("password"), password)
	args := append([]string{"serve", "--listen", r.hooks, "--health-listen", r.health, "--tls-cert-file", r.path("server.crt"), "--tls-private-key-file", r.path("server.key"),
		"--token-file", r.path("token"), "--token-file", r.path("token-next"), "--resync", resync.String(), "--lease", "30s", "--log-level", "debug",
		"--host", u.Host, "--user", u.User.Username(), "--password-file", r.path("password"), "--thumbprint", r.vcenter.ThumbprintSHA256()}, also...)
	var err error
	if r.server, err = cluster.Start(r.Dir, "vmgroup", nil, r.path("vmgroup"), args...); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, r.server.Await(func() error { return ok("http://" + r.health + "/readyz") }))
}

func (r *rig) startMetacontroller(t *testing.T, also ...string) {
	t.Helper()
	binary, err := filepath.Abs(metacontroller)
	must.Succeed(t, err)
	args := append([]string{"--kubeconfig=" + r.Kubeconfig(cluster.Metacontroller), "--client-go-qps=100", "--client-go-burst=200", "--leader-election=false", "--apply-strategy=" + *applyStrategy,
		fmt.Sprintf("--metrics-address=127.0.0.1:%d", r.ports[0]), fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", r.ports[1])}, also...)
	r.metacontroller, err = cluster.StartApart(r.Dir, "metacontroller", binary, args...)
	must.Succeed(t, err)
	must.Succeed(t, r.metacontroller.Await(func() error { return ok(fmt.Sprintf("http://127.0.0.1:%d/readyz", r.ports[1])) }))
}

func ok(url string) error {
	_, err := fetch(url)
	return err
}

func fetch(url string) (string, error) {
	response, err := (&http.Client{Timeout: time.Minute}).Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // the body was only read
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", url, response.Status, text)
	}
	return string(text), err
}

// calls counts the hook calls since the server started, by hook and code as in "/sync 200".
func (r *rig) calls(t *testing.T) map[string]int {
	t.Helper()
	text, err := fetch("http://" + r.health + "/metrics")
	must.Succeed(t, err)
	calls := map[string]int{}
	for line := range strings.Lines(text) {
		var code, hook string
		var n int
		if _, err := fmt.Sscanf(line, `vmgroup_hook_duration_seconds_count{code=%q,hook=%q} %d`, &code, &hook, &n); err == nil {
			calls[hook+" "+code] = n
		}
	}
	return calls
}

// group reads a group with kubectl.
func (r *rig) group(t *testing.T, namespace, name string) *v1alpha1.VmGroup {
	t.Helper()
	g := &v1alpha1.VmGroup{}
	must.Succeed(t, json.Unmarshal([]byte(r.kubectl(t, "-n", namespace, "get", "vg", name, "-o", "json")), g))
	return g
}

// until waits until the status of a group's current generation is as expected.
func (r *rig) until(t *testing.T, namespace, name, what string, holds func(*v1alpha1.VmGroup) bool) *v1alpha1.VmGroup {
	t.Helper()
	var g *v1alpha1.VmGroup
	eventually(t, func() string {
		if g = r.group(t, namespace, name); g.Status.ObservedGeneration == g.Generation && holds(g) {
			return ""
		}
		return fmt.Sprintf("%s/%s is not %s: %s %d/%d ready %d updated %d of generation %d/%d: %s", namespace, name, what, g.Status.Phase, g.Status.CurrentReplicas,
			g.Status.DesiredReplicas, g.Status.ReadyReplicas, g.Status.UpdatedReplicas, g.Status.ObservedGeneration, g.Generation, g.Status.LastMessage)
	})
	return g
}

// settled waits until a group has this number of members, and all match its spec.
func (r *rig) settled(t *testing.T, namespace, name string, members int32) *v1alpha1.VmGroup {
	t.Helper()
	return r.until(t, namespace, name, "settled with "+strconv.Itoa(int(members)), func(g *v1alpha1.VmGroup) bool {
		s := &g.Status
		return s.Phase == v1alpha1.PhaseRunning && s.CurrentReplicas == members && s.DesiredReplicas == members && s.ReadyReplicas == members && s.UpdatedReplicas == members
	})
}

// eventually waits until wrong returns an empty text.
func eventually(t *testing.T, wrong func() string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		what := wrong()
		if what == "" {
			return
		}
		if time.Since(began) > timeout {
			t.Fatalf("after %s: %s", timeout, what)
		}
	}
}

// vms are the VMs of a group in vCenter, by name, as an administrator sees them.
func (r *rig) vms(t *testing.T, namespace, name string) map[string]mo.VirtualMachine {
	t.Helper()
	ctx := context.Background()
	finder := find.NewFinder(r.vcenter.Admin().Client)
	all := map[string]mo.VirtualMachine{}
	list, err := finder.VirtualMachineList(ctx, "/DC0/vm/vm-operator/"+namespace+"/"+name+"/*")
	if err != nil {
		return all // the group has no VMs or no folder
	}
	for _, vm := range list {
		var properties mo.VirtualMachine
		if err := vm.Properties(ctx, vm.Reference(), []string{"name", "config", "runtime.powerState"}, &properties); err != nil {
			continue // the VM was removed after the list was read
		}
		all[properties.Name] = properties
	}
	return all
}

func moRefs(g *v1alpha1.VmGroup) []string {
	var refs []string
	for _, m := range g.Status.Members {
		refs = append(refs, m.MoRef)
	}
	slices.Sort(refs)
	return refs
}
