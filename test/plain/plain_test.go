// Package plain runs the server against govmomi's simulator without changes, because users try the server with the command vcsim, and because
// the simulator can serve recordings of a vCenter. The simulator differs from a vCenter in some ways, none of which may block a group: it
// recommends datastores only if the request names the datastore cluster in initialVmConfig, removes folders only by Destroy_Task, and has no
// event for a destroyed VM, so the server reports such a member as missing.
package plain

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	_ "github.com/vmware/govmomi/pbm/simulator" // registers the service, as vcsim does
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator" // registers the service, as vcsim does
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// timeout is how long a test waits for a change that takes less than a second on an idle machine.
const timeout = time.Minute

// servesModel is the environment variable that makes this binary serve a model instead of running tests. The simulator has a process of its
// own because it has data races: the removal of a VM writes fields that are read without their lock (registry.go:501 and datastore.go:74 in
// v0.56.0).
const servesModel = "VMGROUP_PLAIN_MODEL"

// models are the vCenters that the tests need.
var models = map[string]func(*simulator.Model) error{
	"hundreds": func(m *simulator.Model) error {
		m.Cluster, m.Host, m.Machine, m.Autostart = 1, 0, 260, false
		return m.Create()
	},
	"pod": func(m *simulator.Model) error {
		m.Pod, m.Datastore, m.Host, m.Autostart = 1, 2, 0, false
		return m.Create()
	},
	"recorded":         func(m *simulator.Model) error { return loadRecorded(m, true) },
	"recordedWithVMFS": func(m *simulator.Model) error { return loadRecorded(m, false) },
}

func TestMain(m *testing.M) {
	if name := os.Getenv(servesModel); name != "" {
		if err := serve(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve serves a model as vcsim does, and prints the URL. It returns when standard input is closed.
func serve(name string) error {
	m := simulator.VPX()
	defer m.Remove()
	if err := models[name](m); err != nil {
		return err
	}
	m.Service.RegisterEndpoints, m.Service.TLS = true, new(tls.Config)
	server := m.Service.NewServer()
	defer server.Close()
	fmt.Println(server.URL)
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// plain is a running simulator.
type plain struct {
	t      *testing.T
	ctx    context.Context
	url    *url.URL
	client *govmomi.Client
	find   *find.Finder
}

// start serves a model in a process of its own.
func start(t *testing.T, model string, environment ...string) *plain {
	t.Helper()
	server := exec.Command(os.Args[0])
	server.Env, server.Stderr = append(append(os.Environ(), environment...), servesModel+"="+model), t.Output()
	stdin, err := server.StdinPipe()
	must.Succeed(t, err)
	stdout, err := server.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, server.Start())
	t.Cleanup(func() { _ = stdin.Close(); _ = server.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must.Succeed(t, err)
	at, err := url.Parse(strings.TrimSpace(line))
	must.Succeed(t, err)
	p := &plain{t: t, url: at}
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
	t.Cleanup(cancel)
	client, err := govmomi.NewClient(ctx, p.url, true)
	p.ctx, p.client = ctx, client
	p.must(err)
	t.Cleanup(client.CloseIdleConnections)
	p.find = find.NewFinder(client.Client)
	return p
}

func (p *plain) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *plain) wait(task *object.Task, err error) {
	p.t.Helper()
	p.must(err)
	p.must(task.Wait(p.ctx))
}

// makeTemplate makes a template of a VM, as a user does with govc.
func (p *plain) makeTemplate(name string) {
	p.t.Helper()
	vm, err := p.find.VirtualMachine(p.ctx, name)
	p.must(err)
	p.must(vm.MarkAsTemplate(p.ctx))
}

// settings returns the configuration with which the server logs in.
func (p *plain) settings() session.Config {
	password, _ := p.url.User.Password()
	return session.Config{Host: p.url.Host, User: p.url.User.Username(), Password: password, Insecure: true, Log: zerolog.Nop()}
}

// serve starts the VmGroup server, and returns a group that calls it.
func (p *plain) serve(at inventory.Selection, replicas int32) *metacontroller.Group {
	p.t.Helper()
	at.Folder = "vm-operator"
	var groups *loop.Loop
	vc, err := vsphere.New(vsphere.Config{Config: p.settings(), Selection: at,
		Changed: func(uid apitypes.UID) { groups.Changed(uid) },
		Leased:  func(uid apitypes.UID, vm string) bool { return groups.Leased(uid, vm) }})
	p.must(err)
	groups = loop.New(loop.Config{Slots: 8, Lease: 4 * time.Second, Resync: 2 * time.Second, Log: zerolog.Nop(), Events: true, Who: vc.Who}, vc)
	web := httptest.NewServer(hook.New(hook.Config{Controller: groups, ListGroups: vc.ListGroups, Ready: func() error { return nil }, Log: zerolog.Nop()}))
	ctx, stop := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { groups.Run(ctx) })
	both.Go(func() { _ = vc.Run(ctx) })
	p.t.Cleanup(func() { web.Close(); stop(); both.Wait() })
	g := metacontroller.New(web.URL, "default", "web", "uid-web", replicas)
	g.Client = &http.Client{}
	p.t.Cleanup(g.Client.CloseIdleConnections)
	return g
}

// until calls the hooks until a condition is met.
func (p *plain) until(g *metacontroller.Group, what string, holds func(metacontroller.Answer) bool) metacontroller.Answer {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	began := time.Now()
	a, err := g.Until(ctx, holds)
	if err != nil {
		p.t.Fatalf("waiting until %s: %v; the status says %q", what, err, a.Status.LastMessage)
	}
	p.t.Logf("%s after %v", what, time.Since(began))
	return a
}

// members returns the instanceUuids of the group's VMs, by name.
func (p *plain) members() map[string]string {
	p.t.Helper()
	v, err := view.NewManager(p.client.Client).CreateContainerView(p.ctx, p.client.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	p.must(err)
	var found []mo.VirtualMachine
	p.must(v.Retrieve(p.ctx, []string{"VirtualMachine"}, []string{"name", "config.instanceUuid"}, &found))
	all := map[string]string{}
	for _, vm := range found {
		if strings.HasPrefix(vm.Name, "web-") {
			all[vm.Name] = vm.Config.InstanceUuid
		}
	}
	return all
}

// life creates a group, scales it out, resizes its members, scales it in, and deletes it.
func (p *plain) life(g *metacontroller.Group) {
	t := p.t
	t.Helper()
	n := func(n int32) func(metacontroller.Answer) bool {
		return func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && a.Status.CurrentReplicas == n && int(n) == len(a.Status.Members)
		}
	}
	p.until(g, "it is up", n(*g.Spec.Replicas))
	g.Scale(*g.Spec.Replicas + 2)
	p.until(g, "it is larger", n(*g.Spec.Replicas))
	before := p.members()
	if len(before) != int(*g.Spec.Replicas) {
		t.Errorf("the group's VMs are %v, want %d", before, *g.Spec.Replicas)
	}
	g.Edit(func(s *v1alpha1.VmGroupSpec) { s.CPU++ })
	p.until(g, "it has another size", func(a metacontroller.Answer) bool {
		return n(*g.Spec.Replicas)(a) && a.Status.UpdatedReplicas == *g.Spec.Replicas
	})
	before = p.members()
	g.Scale(1)
	p.until(g, "it is smaller", n(1))
	left := p.members()
	for name, id := range left {
		if before[name] != id || len(left) != 1 {
			t.Errorf("of the VMs %v, %v are left, want 1 that keeps its identity", before, left)
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	p.must(g.Delete(ctx))
	if folders, _ := p.find.FolderList(ctx, "/*/vm/vm-operator/default/*"); len(folders) > 0 {
		t.Errorf("the folder %s is left", folders[0].InventoryPath)
	}
	if left = p.members(); len(left) > 0 {
		t.Errorf("the VMs %v are left; want none", left)
	}
}

// With so many VMs, the simulator answers in several pages, and gives all pages but the first the same version.
func TestAGroupLivesOnGovmomisSimulatorBesideHundredsOfVMs(t *testing.T) {
	thin.NotShort(t)
	p := start(t, "hundreds")
	const template = "DC0_C0_RP0_VM7"
	p.makeTemplate(template)
	g := p.serve(inventory.Selection{}, 3)
	g.Spec.Template, g.Spec.CPU, g.Spec.Memory = template, 1, 1
	began := time.Now()
	first, err := g.Sync(p.ctx)
	p.must(err)
	if strings.Contains(first.Status.LastMessage, "VC_HOST") {
		t.Errorf("the first call took %v, and its status lists VMs of the simulator: %q", time.Since(began), first.Status.LastMessage)
	}
	p.life(g)
}

// The simulator's Storage DRS recommends nothing unless the request names each disk.
func TestADatastoreClusterOfGovmomisSimulatorIsUnderstood(t *testing.T) {
	p := start(t, "pod")
	p.makeTemplate("DC0_C0_RP0_VM0")
	pods, err := p.find.DatastoreClusterList(p.ctx, "*")
	p.must(err)
	stores, err := p.find.DatastoreList(p.ctx, "*")
	p.must(err)
	if i := slices.IndexFunc(stores, func(d *object.Datastore) bool { return d.Name() == "LocalDS_1" }); i >= 0 {
		p.wait(pods[0].MoveInto(p.ctx, []types.ManagedObjectReference{stores[i].Reference()}))
	}
	g := p.serve(inventory.Selection{}, 1)
	g.Spec.Template, g.Spec.CPU, g.Spec.Memory = "DC0_C0_RP0_VM0", 1, 1
	g.Spec.Placement.Datastore = pods[0].InventoryPath
	p.life(g)
}

// The server removes an empty folder by Destroy_Task if vCenter lacks UnregisterAndDestroy_Task, which only the simulator does. A VM that
// arrives in the folder at that moment must not be deleted.
func TestAFolderOfGovmomisSimulatorIsDestroyedWithoutTheVMsInIt(t *testing.T) {
	p := start(t, "pod")
	vm, err := p.find.VirtualMachine(p.ctx, "DC0_C0_RP0_VM0")
	p.must(err)
	above, err := p.find.Folder(p.ctx, "/DC0/vm")
	p.must(err)
	folder, err := above.CreateFolder(p.ctx, "web")
	p.must(err)
	p.wait(folder.MoveInto(p.ctx, []types.ManagedObjectReference{vm.Reference()}))
	_, err = methods.UnregisterAndDestroy_Task(p.ctx, p.client.Client, &types.UnregisterAndDestroy_Task{This: folder.Reference()})
	if _, is := fault.As(err, new(*types.MethodNotFound)); !is {
		t.Errorf("UnregisterAndDestroy_Task: %v, want MethodNotFound", err)
	}
	p.wait(folder.Destroy(p.ctx))
	var left mo.VirtualMachine
	p.must(vm.Properties(p.ctx, vm.Reference(), []string{"config.files"}, &left))
	p.wait(vm.PowerOn(p.ctx))
}
