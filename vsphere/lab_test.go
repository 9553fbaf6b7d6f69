package vsphere

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// lab is a vCenter with one account, whose password can change, and clients of it that are no whole servers.
type lab struct {
	*world
	metrics *prometheus.Registry

	mu   sync.Mutex
	ends map[types.ManagedObjectReference]func(types.AnyType, types.BaseMethodFault)
}

const labUser = "vmgroup@vsphere.local"

// startLab makes one in a bubble.
func startLab(t testing.TB) *lab {
	t.Helper()
	return startLabOf(t, vcsim.Config{})
}

func startLabOf(t testing.TB, c vcsim.Config) *lab {
	t.Helper()
	c.User, c.Password = labUser, "right"
	return labIn(newWorldOf(t, c))
}

func labIn(w *world) *lab {
	return &lab{world: w, metrics: prometheus.NewRegistry(), ends: map[types.ManagedObjectReference]func(types.AnyType, types.BaseMethodFault){}}
}

// config is one that works, given the account's password in a file.
func (l *lab) config() Config {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "password")
	l.must(os.WriteFile(file, []byte("right\n"), 0o600))
	cfg := l.world.config()
	cfg.User, cfg.Password, cfg.PasswordFile = labUser, "", file
	cfg.Insecure, cfg.Thumbprint = false, l.ThumbprintSHA256()
	cfg.UserAgent, cfg.Log, cfg.Metrics = "vmgroup-test", zerolog.Nop(), l.metrics
	return cfg
}

// client makes one that logs out when the test ends.
func (l *lab) client(cfg Config) *client {
	l.t.Helper()
	c, err := newClient(cfg)
	l.must(err)
	l.t.Cleanup(func() { c.logout(context.Background()) })
	return c
}

// logins counts how often a password was tried.
func (l *lab) logins() int {
	ok, refused := l.Logins()
	return ok + refused
}

// calls counts the calls made, by method.
func (l *lab) calls() map[string]int {
	l.t.Helper()
	families, err := l.metrics.Gather()
	l.must(err)
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

// task makes a task that runs until end is called.
func (l *lab) task() types.ManagedObjectReference {
	ref, end := l.BeginTask(vcsim.Clone)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[ref] = end
	return ref
}

func (l *lab) end(ref types.ManagedObjectReference, result types.AnyType, fault types.BaseMethodFault) {
	l.mu.Lock()
	end := l.ends[ref]
	delete(l.ends, ref)
	l.mu.Unlock()
	end(result, fault)
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	began := time.Now()
	for pause := 2 * time.Millisecond; !is(); pause = min(2*pause, time.Second) {
		if time.Since(began) > patience {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(pause)
	}
}

// asError gives err as the *Error it is, or nil.
func asError(err error) *vcfault.Error {
	var e *vcfault.Error
	errors.As(err, &e)
	return e
}

// reasonOf gives the reason of an *Error, and fails for any other error.
func reasonOf(t testing.TB, err error) string {
	t.Helper()
	var e *vcfault.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v (%T) is no *Error", err, err)
	}
	return e.Reason
}

func mentions(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}
