// Package vctest starts the embedded vCenter for the tests of vsphere and of the packages below it: a World, on an in-memory network of a
// synctest bubble, or a Lab, with one account and tasks that a test ends.
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

// Timeout is how long a test waits for a condition. In a synctest bubble, this is virtual time.
const Timeout = 30 * time.Minute

// Lifelike is the latency of tasks in a vCenter that is neither idle nor overloaded.
var Lifelike = vcsim.Latency{Clone: 40 * time.Second, Power: 5 * time.Second, Reconfigure: 2 * time.Second, Other: time.Second}

// bootTime is the time from a guest's power-on until its VMware Tools run.
const bootTime = 30 * time.Second

// World is a vCenter in a test.
type World struct {
	*vcsim.VCenter
	// Unmanaged is a VM of no group; zero if there is none.
	Unmanaged types.ManagedObjectReference
	// Network is the vCenter's in-memory network; nil if the vCenter is on loopback.
	Network *memnet.Network
	t       testing.TB
}

// New starts a vCenter with a template "ubuntu" and an unmanaged VM. It must be called in a synctest bubble.
func New(t testing.TB) *World {
	t.Helper()
	w := Of(t, vcsim.Config{Templates: []string{"ubuntu"}})
	var err error
	w.Unmanaged, err = w.AddVM("/DC0/vm", "unmanaged")
	w.Must(err)
	return w
}

// Of starts a vCenter with this configuration, and with no unmanaged VM. It must be called in a synctest bubble: the vCenter is on an in-memory
// network, and its tasks and guests have latencies.
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

// Real starts a vCenter on loopback, in real time. It is for tests of sockets.
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

// Must ends the test if err is not nil.
func (w *World) Must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Names returns the names of all VMs.
func (w *World) Names() []string {
	var names []string
	for _, vm := range w.VMs() {
		names = append(names, vm.Name)
	}
	slices.Sort(names)
	return names
}

// Look returns the present state of the VM with that name.
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

// Lab is a vCenter with one account, whose password can change. It counts the calls.
type Lab struct {
	*World
	Metrics *prometheus.Registry

	mu   sync.Mutex
	ends map[types.ManagedObjectReference]func(types.AnyType, types.BaseMethodFault)
}

// NewLab starts a Lab. It must be called in a synctest bubble.
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

// PasswordFile returns the path of a new file with the account's password.
func (l *Lab) PasswordFile() string {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "password")
	l.Must(os.WriteFile(file, []byte("right\n"), 0o600))
	return file
}

// Tries returns the number of logins, including refused ones.
func (l *Lab) Tries() int {
	ok, refused := l.Logins()
	return ok + refused
}

// Counted returns the number of calls by method, with the names of the metrics.
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

// Eventually waits until a condition is met. It ends the test after Timeout.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	began := time.Now()
	for pause := 2 * time.Millisecond; !is(); pause = min(2*pause, time.Second) {
		if time.Since(began) > Timeout {
			t.Fatalf("not within %s: %s", Timeout, what)
		}
		time.Sleep(pause)
	}
}

// AsError returns err as a *vcfault.Error, nil if it has another type.
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

// Mentions reports whether a text contains all parts.
func Mentions(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}

// Decoded returns the text of an extraConfig entry, decoded as cloud-init decodes it.
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

// Done waits for an operator's task.
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

// REST is a transport that can replace answers of a vCenter's REST API. REST counts the calls by name; its function name names a call.
type REST struct {
	name func(*http.Request) string

	mu   sync.Mutex
	made map[string]int
	// instead are the answers that replace vCenter's answers, each for one call, by the call's name.
	instead map[string][]*http.Response
	// Agent and OpID are the user agent and the operation ID of the last call.
	Agent, OpID string
}

// NewREST returns a REST. name returns the name of a call.
func NewREST(name func(*http.Request) string) *REST {
	return &REST{name: name, made: map[string]int{}, instead: map[string][]*http.Response{}}
}

// RoundTrip implements http.RoundTripper: it returns an answer of the test, if there is one, or vCenter's.
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

// Made returns the number of calls, by name.
func (l *REST) Made() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.made)
}

// Answer sets the answer to the next call with that name.
func (l *REST) Answer(call string, status int, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.instead[call] = append(l.instead[call], &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	})
}
