// Package vctest starts the embedded vCenter for the tests of vsphere and of the packages below it: a World in a bubble's network in
// memory, or a Lab with one account and tasks that a test ends.
package vctest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Patience is how long a test waits for what should happen, in a bubble in virtual time.
const Patience = 30 * time.Minute

// Lifelike is how long tasks take in a vCenter that is neither idle nor overloaded.
var Lifelike = vcsim.Latency{Clone: 40 * time.Second, Power: 5 * time.Second, Reconfigure: 2 * time.Second, Other: time.Second}

// bootTime is how long a guest needs until its Tools run.
const bootTime = 30 * time.Second

// World is a vCenter in a test.
type World struct {
	*vcsim.VCenter
	// Unmanaged is a VM of no group, if there is one.
	Unmanaged types.ManagedObjectReference
	// Network is the vCenter's network in memory; nil: loopback.
	Network *memnet.Network
	t       testing.TB
}

// New starts a vCenter with a template "ubuntu" and an unmanaged VM, in a bubble.
func New(t testing.TB) *World {
	t.Helper()
	w := Of(t, vcsim.Config{Templates: []string{"ubuntu"}})
	var err error
	w.Unmanaged, err = w.AddVM("/DC0/vm", "unmanaged")
	w.Must(err)
	return w
}

// Of starts a vCenter of another kind, with no unmanaged VM. It is on a network in memory, and its tasks and guests take
// their time, so it must be made in a bubble.
func Of(t testing.TB, c vcsim.Config) *World {
	t.Helper()
	network := memnet.New()
	c.Listener = network.Listen()
	if c.Latency == (vcsim.Latency{}) {
		c.Latency = Lifelike
	}
	if c.Guest.Tools && c.Guest.Boot == 0 {
		c.Guest.Boot = bootTime
	}
	return startBase(t, c, network)
}

// Real starts a vCenter on loopback, in real time, for tests of sockets.
func Real(t testing.TB, c vcsim.Config) *World {
	t.Helper()
	return startBase(t, c, nil)
}

func startBase(t testing.TB, c vcsim.Config, network *memnet.Network) *World {
	t.Helper()
	vc, err := vcsim.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vc.Close(); err != nil {
			t.Errorf("close the embedded vCenter: %v", err)
		}
	})
	return &World{VCenter: vc, t: t, Network: network}
}

// Must ends the test if there is an error.
func (w *World) Must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Names are the names of all VMs.
func (w *World) Names() []string {
	var names []string
	for _, vm := range w.VMs() {
		names = append(names, vm.Name)
	}
	slices.Sort(names)
	return names
}

// Look is a VM as it is now.
func (w *World) Look(name string) vcsim.VM {
	for _, vm := range w.VMs() {
		if vm.Name == name {
			vm.ExtraConfig = maps.Clone(vm.ExtraConfig)
			return vm
		}
	}
	return vcsim.VM{}
}

// User is the account of a lab's vCenter.
const User = "vmgroup@vsphere.local"

// Lab is a vCenter with one account, whose password can change, and counts of the calls made to it.
type Lab struct {
	*World
	Metrics *prometheus.Registry

	mu   sync.Mutex
	ends map[types.ManagedObjectReference]func(types.AnyType, types.BaseMethodFault)
}

// NewLab starts a Lab in a bubble.
func NewLab(t testing.TB, c vcsim.Config) *Lab {
	t.Helper()
	c.User, c.Password = User, "right"
	return labOf(Of(t, c))
}

// NewRealLab starts a Lab on loopback, in real time.
func NewRealLab(t testing.TB) *Lab {
	t.Helper()
	return labOf(Real(t, vcsim.Config{User: User, Password: "right"}))
}

func labOf(w *World) *Lab {
	return &Lab{World: w, Metrics: prometheus.NewRegistry(), ends: map[types.ManagedObjectReference]func(types.AnyType, types.BaseMethodFault){}}
}

// PasswordFile is a file with the account's password.
func (l *Lab) PasswordFile() string {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "password")
	l.Must(os.WriteFile(file, []byte("right\n"), 0o600))
	return file
}

// Tries counts how often a password was tried.
func (l *Lab) Tries() int {
	ok, refused := l.Logins()
	return ok + refused
}

// Counted counts the calls made, by method, as in the metrics.
func (l *Lab) Counted() map[string]int {
	l.t.Helper()
	families, err := l.Metrics.Gather()
	l.Must(err)
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

// Task creates a task that runs until End is called.
func (l *Lab) Task() types.ManagedObjectReference {
	ref, end := l.BeginTask(vcsim.Clone)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[ref] = end
	return ref
}

// End ends a task, with a result or a fault.
func (l *Lab) End(ref types.ManagedObjectReference, result types.AnyType, fault types.BaseMethodFault) {
	l.mu.Lock()
	end := l.ends[ref]
	delete(l.ends, ref)
	l.mu.Unlock()
	end(result, fault)
}

// Eventually waits until a condition is met.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	began := time.Now()
	for pause := 2 * time.Millisecond; !is(); pause = min(2*pause, time.Second) {
		if time.Since(began) > Patience {
			t.Fatalf("not within %s: %s", Patience, what)
		}
		time.Sleep(pause)
	}
}

// AsError returns err as a *vcfault.Error, nil if it is none.
func AsError(err error) *vcfault.Error {
	var e *vcfault.Error
	errors.As(err, &e)
	return e
}

// ReasonOf returns the reason of a *vcfault.Error, and fails for any other error.
func ReasonOf(t testing.TB, err error) string {
	t.Helper()
	var e *vcfault.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v (%T) is no *Error", err, err)
	}
	return e.Reason
}

// Mentions reports whether a text has all parts.
func Mentions(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}

// Decoded is what cloud-init makes of an entry of extraConfig.
func Decoded(t testing.TB, options map[string]string, key string) string {
	t.Helper()
	if got := options[key+".encoding"]; got != "gzip+base64" {
		t.Fatalf("%s has the encoding %q", key, got)
	}
	packed, err := base64.StdEncoding.DecodeString(options[key])
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// Done awaits an operator's task.
func (w *World) Done(task *object.Task, err error) {
	w.t.Helper()
	w.Must(err)
	w.Must(task.Wait(w.t.Context()))
}

// Value returns x, and panics on an error.
func Value[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// REST answers for the REST API of a vCenter, and counts its calls, by the names from name.
type REST struct {
	name func(*http.Request) string

	mu   sync.Mutex
	made map[string]int
	// instead are answers instead, each once.
	instead map[string][]*http.Response
	// Agent and OpID are those of the last call.
	Agent, OpID string
}

// NewREST returns a REST.
func NewREST(name func(*http.Request) string) *REST {
	return &REST{name: name, made: map[string]int{}, instead: map[string][]*http.Response{}}
}

// RoundTrip implements http.RoundTripper: it returns the test's answers, and leaves the rest to the transport.
func (l *REST) RoundTrip(r *http.Request) (*http.Response, error) {
	call := l.name(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made[call]++
	l.Agent, l.OpID = r.UserAgent(), r.Header.Get("X-Request-ID")
	if queue := l.instead[call]; len(queue) > 0 {
		l.instead[call] = queue[1:]
		queue[0].Request = r
		return queue[0], nil
	}
	return nil, http.ErrSkipAltProtocol
}

// Count returns how often a call was made.
func (l *REST) Count(call string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made[call]
}

// Made returns the calls that were made, by name.
func (l *REST) Made() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.made)
}

// Answer answers the next call of that name.
func (l *REST) Answer(call string, status int, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.instead[call] = append(l.instead[call], &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	})
}
