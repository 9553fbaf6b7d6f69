package vsphere

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/property"
	logins "github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// lab is a simulator with TLS, one account whose password can change, a network that can fail, and an admin who
// looks at it from outside.
type lab struct {
	t      testing.TB
	server *simulator.Server
	admin  *vim25.Client
	// password is the account's; logins counts how often it was tried.
	password atomic.Value
	logins   atomic.Int32
	metrics  *prometheus.Registry
	model    *simulator.Model

	mu    sync.Mutex
	tasks map[types.ManagedObjectReference]chan ending
	made  int
}

const labUser = "vmgroup@vsphere.local"

func startLab(t testing.TB, change ...func(*simulator.Model)) *lab {
	t.Helper()
	l := &lab{t: t, metrics: prometheus.NewRegistry(), tasks: map[types.ManagedObjectReference]chan ending{}}
	l.password.Store("right")
	model := simulator.VPX()
	model.Host, model.ClusterHost, model.Machine, model.Portgroup = 0, 1, 0, 0 // hosts and VMs take most of the time
	l.model = model
	for _, f := range change {
		f(model)
	}
	if err := model.Create(); err != nil {
		t.Fatal(err)
	}
	model.Service.TLS = new(tls.Config)
	model.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword("admin", "admin")}
	model.Map().SessionManager().ValidLogin = func(l2 *types.Login) bool {
		if l2.UserName == "admin" {
			return true
		}
		l.logins.Add(1)
		return l2.UserName == labUser && l2.Password == l.password.Load()
	}
	l.server = model.Service.NewServer()
	t.Cleanup(func() {
		l.mu.Lock()
		left := slices.Collect(maps.Keys(l.tasks))
		l.mu.Unlock()
		for _, ref := range left {
			l.end(ref, nil, nil)
		}
		l.server.Close()
		model.Remove()
	})

	u := *l.server.URL
	u.User = nil
	wire := soap.NewClient(&u, true)
	var err error
	if l.admin, err = vim25.NewClient(t.Context(), wire); err != nil {
		t.Fatal(err)
	}
	if err := logins.NewManager(l.admin).Login(t.Context(), url.UserPassword("admin", "admin")); err != nil {
		t.Fatal(err)
	}
	return l
}

// config is one that works, given the account's password in a file.
func (l *lab) config() Config {
	file := filepath.Join(l.t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("right\n"), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return Config{
		Host: l.server.URL.Host, User: labUser, PasswordFile: file,
		Thumbprint: thumbprint(l.server.Certificate()), UserAgent: "vmgroup-test",
		Log: zerolog.Nop(), Metrics: l.metrics,
	}
}

// client makes one that logs out when the test ends, and the network between.
func (l *lab) client(cfg Config) (*client, *network) {
	l.t.Helper()
	c, err := newClient(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	n := &network{}
	dial := c.transport.DialContext
	c.transport.DialContext = func(ctx context.Context, kind, address string) (net.Conn, error) {
		return n.dial(func() (net.Conn, error) { return dial(ctx, kind, address) })
	}
	l.t.Cleanup(func() { c.logout(context.Background()) })
	return c, n
}

// sessions are the keys of our account's sessions in vCenter.
func (l *lab) sessions() []string {
	l.t.Helper()
	var m mo.SessionManager
	err := property.DefaultCollector(l.admin).RetrieveOne(context.Background(), *l.admin.ServiceContent.SessionManager, []string{"sessionList"}, &m)
	if err != nil {
		l.t.Fatal(err)
	}
	var keys []string
	for _, s := range m.SessionList {
		if s.UserName == labUser {
			keys = append(keys, s.Key)
		}
	}
	return keys
}

// drop ends our account's sessions, as a time-out does.
func (l *lab) drop() {
	l.t.Helper()
	if err := logins.NewManager(l.admin).TerminateSession(context.Background(), l.sessions()); err != nil {
		l.t.Fatal(err)
	}
}

// calls counts the calls made, by method.
func (l *lab) calls() map[string]int {
	l.t.Helper()
	families, err := l.metrics.Gather()
	if err != nil {
		l.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, f := range families {
		if f.GetName() != "vmgroup_vcenter_calls_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			counts[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
		}
	}
	return counts
}

// ending is how a task of the lab ends.
type ending struct {
	result types.AnyType
	fault  types.BaseMethodFault
}

// task makes a task that runs until end is called. Each is on an object of its own, for the simulator locks it.
func (l *lab) task() types.ManagedObjectReference {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := make(chan ending, 1)
	on := types.ManagedObjectReference{Type: "Folder", Value: fmt.Sprintf("lab-%d", l.made)}
	l.made++
	task := simulator.CreateTask(on, "work", func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
		e := <-ends
		return e.result, e.fault
	})
	ref := task.Run(&simulator.Context{Context: context.Background(), Map: l.model.Map()})
	l.tasks[ref] = ends
	return ref
}

func (l *lab) end(ref types.ManagedObjectReference, result types.AnyType, fault types.BaseMethodFault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks[ref] <- ending{result, fault}
	delete(l.tasks, ref)
}

// network is the one between client and simulator.
type network struct {
	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

func (n *network) dial(dial func() (net.Conn, error)) (net.Conn, error) {
	n.mu.Lock()
	down := n.down
	n.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	conn, err := dial()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		n.conns = append(n.conns, conn)
	}
	return conn, err
}

// fail takes the network down; up brings it back.
func (n *network) fail() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

func (n *network) up() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}

// clock is one that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 15 s it is still not so that %s", what)
		}
	}
}

// asError gives err as the *Error it is, or nil.
func asError(err error) *Error {
	var e *Error
	errors.As(err, &e)
	return e
}

// reasonOf gives the reason of an *Error, and fails for any other error.
func reasonOf(t testing.TB, err error) string {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v (%T) is no *Error", err, err)
	}
	return e.Reason
}

func mentions(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}
