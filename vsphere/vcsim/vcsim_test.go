package vcsim_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const template = "vm-operator-template"

// timeout is how long a test waits for something. In a bubble this is virtual time.
const timeout = 30 * time.Minute

// networks are the in-memory networks by vCenter.
var networks sync.Map

func networkOf(v *vcsim.VCenter) *memnet.Network {
	network, _ := networks.Load(v)
	return network.(*memnet.Network)
}

// start starts a vCenter on an in-memory network, in a synctest bubble, and closes it at the end of the test.
func start(t testing.TB, c vcsim.Config) *vcsim.VCenter {
	t.Helper()
	network := memnet.New()
	c.Listener = network.Listen()
	v := startReal(t, c)
	networks.Store(v, network)
	t.Cleanup(func() { networks.Delete(v) })
	return v
}

// inABubble runs a test with a vCenter and a client in a synctest bubble, in parallel with other tests.
func inABubble(t *testing.T, c vcsim.Config, test func(t *testing.T, v *vcsim.VCenter, c *client)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, c)
		test(t, v, login(t, v))
	})
}

// startReal starts a vCenter on loopback, in real time, and closes it at the end of the test.
func startReal(t testing.TB, c vcsim.Config) *vcsim.VCenter {
	t.Helper()
	v, err := vcsim.Start(c)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func ok(t testing.TB, err error) {
	t.Helper()
	must.Succeed(t, err)
}

// client is a logged-in client with the objects that most tests need.
type client struct {
	*govmomi.Client
	ctx      context.Context
	template *object.VirtualMachine
	folder   *object.Folder // DC0/vm
	pool     types.ManagedObjectReference
}

// transportTo returns a transport for clients of a vCenter on any network.
func transportTo(t testing.TB, v *vcsim.VCenter) *http.Transport {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if network, in := networks.Load(v); in {
		transport = network.(*memnet.Network).Transport()
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// dial logs in.
func dial(t testing.TB, v *vcsim.VCenter) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Hour)
	t.Cleanup(cancel)
	c, err := v.Login(ctx, v.URL().User, transportTo(t, v))
	ok(t, err)
	return &client{Client: c, ctx: ctx}
}

func login(t testing.TB, v *vcsim.VCenter) *client {
	t.Helper()
	c := dial(t, v)
	ctx := c.ctx
	finder := find.NewFinder(c.Client.Client)
	dc, err := finder.DefaultDatacenter(ctx)
	ok(t, err)
	finder.SetDatacenter(dc)
	vm, err := finder.VirtualMachine(ctx, template)
	ok(t, err)
	pool, err := finder.DefaultResourcePool(ctx)
	ok(t, err)
	folders, err := dc.Folders(ctx)
	ok(t, err)
	c.template, c.folder, c.pool = vm, folders.VmFolder, pool.Reference()
	return c
}

func (c *client) cloneSpec(config *types.VirtualMachineConfigSpec) types.VirtualMachineCloneSpec {
	return types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &c.pool}, Config: config}
}

// startClone starts a clone of the template into DC0/vm.
func (c *client) startClone(t testing.TB, name string) *object.Task {
	t.Helper()
	task, err := c.template.Clone(c.ctx, c.folder, name, c.cloneSpec(nil))
	ok(t, err)
	return task
}

func (c *client) clone(t testing.TB, name string) *object.VirtualMachine {
	t.Helper()
	info, err := c.startClone(t, name).WaitForResult(c.ctx, nil)
	ok(t, err)
	return object.NewVirtualMachine(c.Client.Client, info.Result.(types.ManagedObjectReference))
}

// children returns the names in a folder.
func (c *client) children(t testing.TB, folder types.ManagedObjectReference) []string {
	t.Helper()
	var f mo.Folder
	ok(t, c.RetrieveOne(c.ctx, folder, []string{"childEntity"}, &f))
	var names []string
	for _, ref := range f.ChildEntity {
		var e mo.ManagedEntity
		ok(t, c.RetrieveOne(c.ctx, ref, []string{"name"}, &e))
		names = append(names, e.Name)
	}
	return names
}

// wantFault fails unless err is a fault of the type F.
func wantFault[F types.BaseMethodFault](t testing.TB, err error) F {
	t.Helper()
	var f F
	if _, is := fault.As(err, &f); !is {
		t.Fatalf("got %v (%T), want a %T", err, err, f)
	}
	return f
}

func within(t testing.TB, limit time.Duration, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s took longer than %v", what, limit)
	}
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	began := time.Now()
	for pause := 5 * time.Millisecond; !is(); pause = min(2*pause, time.Second) {
		if time.Since(began) > timeout {
			t.Fatalf("waited in vain for %s until %s", timeout, what)
		}
		time.Sleep(pause)
	}
}

func TestCloseEndsAPendingWait(t *testing.T) {
	inABubble(t, vcsim.Config{Latency: vcsim.Latency{Clone: time.Hour}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		task := c.startClone(t, "never")
		pc, err := property.DefaultCollector(c.Client.Client).Create(c.ctx)
		ok(t, err)
		_, err = pc.CreateFilter(c.ctx, types.CreateFilter{Spec: types.PropertyFilterSpec{
			ObjectSet: []types.ObjectSpec{{Obj: task.Reference()}},
			PropSet:   []types.PropertySpec{{Type: "Task", PathSet: []string{"info.state"}}},
		}})
		ok(t, err)
		waiting := make(chan error, 1)
		go func() {
			waiting <- pc.WaitForUpdatesEx(c.ctx, &property.WaitOptions{}, func([]types.ObjectUpdate) bool { return false })
		}()
		eventually(t, "the wait begins", func() bool { return v.Calls()["WaitForUpdatesEx"] == 2 })
		within(t, 3*time.Second, "Close", func() {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := <-waiting; err == nil {
			t.Error("the wait ended without an error")
		}
		if err := v.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}
