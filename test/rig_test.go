package test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/probe"
	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// patience is the virtual time after which a test in a bubble stops waiting for an expected event, and fails.
const patience = 30 * time.Minute

// realPatience is the patience of tests in real time. It is far below the time limit of go test, whose failure wouldn't say what the test waited for.
const realPatience = 5 * time.Minute

// rig is an embedded vCenter with an administrator logged in to it.
type rig struct {
	*vcsim.VCenter
	t     testing.TB
	admin *govmomi.Client
	find  *find.Finder
	// network is the in-memory network that connects all parts of the rig; nil: they use loopback, in real time.
	network   *memnet.Network
	transport *http.Transport                                                      // the transport of all clients except for the server's own
	direct    bool                                                                 // replicas call vCenter, and the test calls replicas, without HTTP and XML
	hooks     memnet.Handlers                                                      // the hooks of the replicas, if direct
	planted   *defect                                                              // the defect in all replicas; nil: none
	probed    probe.Networks                                                       // the networks in which replicas may probe members
	dialGuest func(ctx context.Context, network, address string) (net.Conn, error) // how replicas connect to guests; nil: DialGuest
}

// newRig starts a vCenter on an in-memory network. Its tasks and guests take virtual time, so a test must call newRig in a bubble, and the vCenter ends
// with the bubble. Replicas call this vCenter directly, which is several times as fast as with HTTP and XML; lives run in each way (ways_test.go).
func newRig(t testing.TB, cfg vcsim.Config) *rig {
	t.Helper()
	return newRigBy(t, direct, cfg)
}

// newTLSRig is newRig with the TLS, HTTP and XML of a real vCenter.
func newTLSRig(t testing.TB, cfg vcsim.Config) *rig {
	t.Helper()
	return newRigBy(t, byTLS, cfg)
}

// inRig runs a test on a rig, in virtual time and in parallel with others.
func inRig(t *testing.T, cfg vcsim.Config, test func(*testing.T, *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newRig(t, cfg)) })
}

// newRigBy is newRig with replicas that call vCenter in the given way.
func newRigBy(t testing.TB, by way, cfg vcsim.Config) *rig {
	t.Helper()
	r := memoryRig(t, by, cfg)
	r.login()
	return r
}

// memoryRig is newRigBy without an administrator.
func memoryRig(t testing.TB, by way, cfg vcsim.Config) *rig {
	t.Helper()
	if cfg.Latency == (vcsim.Latency{}) {
		cfg.Latency = lifetimes
	}
	if cfg.Guest.Tools && cfg.Guest.Boot == 0 {
		cfg.Guest.Boot = bootTime
	}
	network := memnet.New()
	cfg.Listener, cfg.Plain = network.Listen(), by != byTLS
	r := startRig(t, cfg, network, network.Transport())
	r.direct = by == direct
	return r
}

// newRealRig starts a vCenter on loopback, in real time, for replicas that are processes, and for tests of sockets.
func newRealRig(t testing.TB, cfg vcsim.Config) *rig {
	t.Helper()
	r := startRig(t, cfg, nil, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 100})
	r.login()
	return r
}

func startRig(t testing.TB, cfg vcsim.Config, network *memnet.Network, transport *http.Transport) *rig {
	t.Helper()
	sim, err := vcsim.Start(cfg)
	must.Succeed(t, err)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := sim.Close(); err != nil {
			t.Errorf("close the embedded vCenter: %v", err)
		}
	})
	return &rig{VCenter: sim, t: t, network: network, transport: transport,
		probed: probe.Networks{Allowed: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}}
}

// login logs the administrator in. A test calls login again after a restart of vCenter, which ends all sessions.
func (r *rig) login() {
	r.t.Helper()
	client, err := r.newClient(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	r.admin, r.find = client, find.NewFinder(client.Client)
}

// newClient returns a logged-in client that calls vCenter in the same way as the replicas.
func (r *rig) newClient(ctx context.Context) (*govmomi.Client, error) {
	client, err := r.Login(ctx, r.URL().User, r.transport)
	if err != nil || !r.direct {
		return client, err
	}
	session, err := client.SessionManager.UserSession(ctx)
	if err != nil {
		return nil, err
	}
	client.RoundTripper = r.Direct(session.Key)
	return client, nil
}

// listen returns a listener on the rig's network.
func (r *rig) listen() net.Listener {
	r.t.Helper()
	if r.network != nil {
		return r.network.Listen()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err)
	return l
}

// serverReplica is one replica of the server, in this process.
type serverReplica struct {
	rig  *rig
	url  string
	loop *loop.Loop
	stop func()
}

// serve starts a replica of the server on the rig's vCenter, as cmd does. It ends with the test, or by stop.
func (r *rig) serve(change ...func(*vsphere.Config, *loop.Config)) *serverReplica {
	r.t.Helper()
	vcenter := r.URL()
	password, _ := vcenter.User.Password()
	var groups *loop.Loop
	vcCfg := vsphere.Config{
		Config: session.Config{Host: hostOf(vcenter), User: vcenter.User.Username(), Password: password, Log: zerolog.Nop(),
			Metrics: prometheus.NewRegistry()},
		Selection: inventory.Selection{Folder: "vm-operator"}, Changed: func(uid apitypes.UID) { groups.Changed(uid) },
		Leased: func(uid apitypes.UID, vm string) bool { return groups.Leased(uid, vm) }}
	if vcenter.Scheme == "https" {
		vcCfg.Thumbprint = r.ThumbprintSHA256()
	} else {
		vcCfg.Insecure = true
	}
	if r.network != nil {
		vcCfg.Dial = r.network.DialContext
	}
	if r.direct {
		vcCfg.Through = r.Direct
	}
	loopCfg := loop.Config{Slots: 8, Lease: 90 * time.Second, Resync: 30 * time.Second, Log: zerolog.Nop(), Events: true}
	for _, c := range change {
		c(&vcCfg, &loopCfg)
	}
	vc, err := vsphere.New(vcCfg)
	if err != nil {
		r.t.Fatal(err)
	}
	loopCfg.Who = vc.Who
	dial := r.DialGuest
	if r.dialGuest != nil {
		dial = r.dialGuest
	}
	prober := probe.New(probe.Config{Networks: r.probed, Dial: dial, Changed: vcCfg.Changed})
	loopCfg.Prober = prober
	groups = loop.New(loopCfg, r.planted.in(vc))
	listener := r.listen()
	hooks := hook.New(hook.Config{Controller: r.planted.before(r, groups), Preflight: vc, ListGroups: vc.ListGroups, Ready: func() error { return nil }, Log: zerolog.Nop()})
	web := &http.Server{Handler: hooks}
	go func() { _ = web.Serve(listener) }()
	refuse := r.hooks.Handle(listener.Addr().String(), hooks)
	loopCtx, stopLoop := context.WithCancel(context.Background())
	vcCtx, stopVC := context.WithCancel(context.Background())
	loopDone, vcDone, proberDone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { defer close(loopDone); groups.Run(loopCtx) }()
	go func() { defer close(proberDone); prober.Run(loopCtx) }()
	go func() { defer close(vcDone); _ = vc.Run(vcCtx) }()
	stopped := false
	s := &serverReplica{rig: r, url: "http://" + listener.Addr().String(), loop: groups, stop: func() {
		if stopped {
			return
		}
		stopped = true
		refuse()
		_ = web.Close()
		stopLoop()
		<-loopDone
		<-proberDone
		stopVC()
		<-vcDone
		if outside := role.Outside(callsIn(r.t, vcCfg.Metrics.(*prometheus.Registry))); len(outside) > 0 {
			r.t.Errorf("calls that the least role doesn't cover: %v", outside)
		}
	}}
	r.t.Cleanup(s.stop)
	return s
}

// hostOf is what --host takes for a vCenter: its URL without user and password.
func hostOf(vcenter *url.URL) string {
	return (&url.URL{Scheme: vcenter.Scheme, Host: vcenter.Host, Path: vcenter.Path}).String()
}

// group makes a group that calls this replica.
func (s *serverReplica) group(name string, replicas int32) *metacontroller.Group {
	return s.groupOf("default", name, "uid-"+name, replicas)
}

// groupOf makes a group that calls this replica, of any namespace, name and UID.
func (s *serverReplica) groupOf(namespace, name, uid string, replicas int32) *metacontroller.Group {
	g := metacontroller.New(s.url, namespace, name, uid, replicas)
	g.Client = s.rig.client()
	if s.rig.direct {
		g.Client = &http.Client{Transport: &s.rig.hooks}
	}
	if s.rig.network != nil {
		g.Every = 0 // no fixed interval between hook calls, because time is virtual
	}
	return g
}

// client calls servers on the rig's network.
func (r *rig) client() *http.Client { return &http.Client{Transport: r.transport} }

func within(t testing.TB) context.Context {
	limit := patience
	if time.Now().Year() >= 2020 { // a bubble's clock starts in 2000
		limit = realPatience
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
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

// upAt is up at the URL of another replica of the server.
func upAt(t testing.TB, g *metacontroller.Group, url string) metacontroller.Answer {
	t.Helper()
	g.URL = url
	return up(t, g)
}

func remove(t testing.TB, g *metacontroller.Group) {
	t.Helper()
	if err := g.Delete(within(t)); err != nil {
		t.Fatalf("%s is not gone: %v", g.Name, err)
	}
}

// eventually waits until a condition is met.
func eventually(t testing.TB, limit time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for pause := 5 * time.Millisecond; !holds(); pause = min(pause*3/2, time.Second) {
		if time.Since(began) > limit {
			t.Fatalf("waited in vain for %s until %s", limit, what)
		}
		time.Sleep(pause)
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

// names lists the VMs of a folder; a powered-on one is name+.
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
			continue // the VM was removed after the listing
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

// task waits for an administrator's task.
func (r *rig) task(task *object.Task, err error) {
	r.t.Helper()
	if err == nil {
		err = task.Wait(context.Background())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// unmanaged makes an unmanaged VM, in a folder.
func (r *rig) unmanaged(folder, name string) *object.VirtualMachine {
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

// leftOut reports whether this run leaves case n of a test out: a thin run has only every seventh case.
func leftOut(n int) bool { return thin.Out(n, 7) }
