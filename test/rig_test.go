package test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/test/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// patience is how long a test waits for what should take a second or two on a loaded machine.
const patience = 60 * time.Second

// rig is an embedded vCenter with an admin logged in to it.
type rig struct {
	*vcsim.VCenter
	t     testing.TB
	admin *govmomi.Client
	find  *find.Finder
}

func newRig(t testing.TB, cfg vcsim.Config) *rig {
	t.Helper()
	sim, err := vcsim.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sim.Close(); err != nil {
			t.Errorf("close the embedded vCenter: %v", err)
		}
	})
	r := &rig{VCenter: sim, t: t}
	r.login()
	return r
}

// login logs the admin in (again: a restart ends all sessions).
func (r *rig) login() {
	r.t.Helper()
	client, err := govmomi.NewClient(context.Background(), r.URL(), true)
	if err != nil {
		r.t.Fatal(err)
	}
	r.admin, r.find = client, find.NewFinder(client.Client)
}

// copyOfServer is one copy of the server, in this process.
type copyOfServer struct {
	url  string
	loop *loop.Loop
	stop func()
}

// serve starts a copy of the server on the rig's vCenter, as cmd does. It ends with the test, or by stop.
func (r *rig) serve(change ...func(*vsphere.Config, *loop.Config)) *copyOfServer {
	r.t.Helper()
	url := r.URL()
	password, _ := url.User.Password()
	var groups *loop.Loop
	vcCfg := vsphere.Config{Host: url.Host, User: url.User.Username(), Password: password, Thumbprint: r.ThumbprintSHA256(),
		Folder: "vm-operator", Log: zerolog.Nop(), Changed: func(uid apitypes.UID) { groups.Changed(uid) },
		Leased:  func(uid apitypes.UID) bool { return groups.Leased(uid) },
		Metrics: prometheus.NewRegistry()}
	loopCfg := loop.Config{Slots: 8, Lease: 90 * time.Second, Resync: 30 * time.Second, Log: zerolog.Nop()}
	for _, c := range change {
		c(&vcCfg, &loopCfg)
	}
	vc, err := vsphere.New(vcCfg)
	if err != nil {
		r.t.Fatal(err)
	}
	groups = loop.New(loopCfg, vc)
	web := httptest.NewServer(hook.New(hook.Config{Keeper: groups, Roster: vc.Roster, Ready: func() error { return nil }, Log: zerolog.Nop()}))
	loopCtx, stopLoop := context.WithCancel(context.Background())
	vcCtx, stopVC := context.WithCancel(context.Background())
	loopDone, vcDone := make(chan struct{}), make(chan struct{})
	go func() { defer close(loopDone); groups.Run(loopCtx) }()
	go func() { defer close(vcDone); _ = vc.Run(vcCtx) }()
	stopped := false
	s := &copyOfServer{url: web.URL, loop: groups, stop: func() {
		if stopped {
			return
		}
		stopped = true
		web.Close()
		stopLoop()
		<-loopDone
		stopVC()
		<-vcDone
		if outside := vsphere.OutsideRole(callsIn(r.t, vcCfg.Metrics.(*prometheus.Registry))); len(outside) > 0 {
			r.t.Errorf("calls that the least role does not tell of: %v", outside)
		}
	}}
	r.t.Cleanup(s.stop)
	return s
}

// group makes a group that calls this copy.
func (s *copyOfServer) group(name string, replicas int32) *metacontroller.Group {
	return metacontroller.New(s.url, "default", name, "uid-"+name, replicas)
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// up syncs a group until it is RUNNING.
func up(t testing.TB, g *metacontroller.Group) metacontroller.Answer {
	t.Helper()
	a, err := g.Until(within(t), metacontroller.Running)
	if err != nil {
		t.Fatalf("%s is not up: %v", g.Name, err)
	}
	return a
}

func remove(t testing.TB, g *metacontroller.Group) {
	t.Helper()
	if err := g.Delete(within(t)); err != nil {
		t.Fatalf("%s is not gone: %v", g.Name, err)
	}
}

// eventually waits until something holds.
func eventually(t testing.TB, limit time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began)
}

// vm finds a VM by its inventory path or name; nil if there is none.
func (r *rig) vm(path string) *object.VirtualMachine {
	vm, err := r.find.VirtualMachine(context.Background(), path)
	if err != nil {
		return nil
	}
	return vm
}

// names lists the VMs of a folder, as name+ for powered-on ones.
func (r *rig) names(folder string) []string {
	r.t.Helper()
	ctx := context.Background()
	f, err := r.find.Folder(ctx, folder)
	if err != nil {
		return nil
	}
	children, err := f.Children(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, c := range children {
		var vm mo.VirtualMachine
		if err := r.admin.RetrieveOne(ctx, c.Reference(), []string{"name", "runtime.powerState"}, &vm); err != nil {
			continue // gone meanwhile
		}
		name := vm.Name
		if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
			name += "+"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// task waits for an admin's task.
func (r *rig) task(task *object.Task, err error) {
	r.t.Helper()
	if err == nil {
		err = task.Wait(context.Background())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// stranger makes a VM that is nobody's, in a folder.
func (r *rig) stranger(folder, name string) *object.VirtualMachine {
	r.t.Helper()
	ctx := context.Background()
	f, err := r.find.Folder(ctx, folder)
	if err != nil {
		r.t.Fatal(err)
	}
	pool, err := r.find.DefaultResourcePool(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	ref := pool.Reference()
	r.task(r.vm("vm-operator-template").Clone(ctx, f, name, types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &ref}}))
	return r.vm(folder + "/" + name)
}

func running(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("web-%d+", i))
	}
	return names
}

func equal(t testing.TB, got, want []string) {
	t.Helper()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %v, want %v", got, want)
	}
}
