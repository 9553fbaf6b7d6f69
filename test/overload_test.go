//go:build unix

package test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var overloadFull = flag.Bool("overload.full", false, "1,000 groups, and a vCenter that answers in 5 s")

// metacontrollerWaits is how long Metacontroller waits for a hook's answer.
const metacontrollerWaits = 10 * time.Second

// checker is a client's transport that checks every answer: 200, or 429 with Retry-After in whole seconds, each within
// Metacontroller's time.
type checker struct {
	next         *http.Transport
	ok, refused  atomic.Int64
	goroutines   atomic.Int64 // the highest number so far
	mu           sync.Mutex
	worst        time.Duration
	wrong        []string
	largeBodies  atomic.Int64
	largeRefused atomic.Int64
}

func (c *checker) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	res, err := c.next.RoundTrip(r)
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goroutines.Store(max(c.goroutines.Load(), int64(runtime.NumGoroutine())))
	c.worst = max(c.worst, took)
	switch {
	case err != nil:
		c.wrong = append(c.wrong, err.Error())
	case res.StatusCode == http.StatusOK:
		c.ok.Add(1)
	case res.StatusCode == http.StatusTooManyRequests:
		if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || n < 1 {
			c.wrong = append(c.wrong, fmt.Sprintf("429 with Retry-After %q", res.Header.Get("Retry-After")))
		}
		c.refused.Add(1)
	default:
		c.wrong = append(c.wrong, res.Status)
	}
	if took >= metacontrollerWaits {
		c.wrong = append(c.wrong, fmt.Sprintf("an answer took %s", took))
	}
	return res, err
}

// storm is a server with more groups than slots, and 200 concurrent callers of its hooks.
type storm struct {
	*rig
	wire    *vcsim.Wire
	groups  []*metacontroller.Group
	checker *checker
	clients *http.Client
}

// gauge reads the goroutines and the heap of the whole test, including the callers.
func gauge() (goroutines int, bytes uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapInuse
}

const callers = 200

// callAll has the callers call for every group several times, concurrently. (Metacontroller calls again for a group after a time-out, so a group can
// have several calls at the same time.)
func (s *storm) callAll(calls int) {
	requests := make([][]byte, len(s.groups))
	for i, g := range s.groups {
		var err error
		requests[i], err = g.Body(false)
		s.must(err)
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < calls; n = int(next.Add(1)) - 1 {
				i := n % len(s.groups)
				res, err := s.clients.Post(s.groups[i].URL+"/sync", "application/json", bytes.NewReader(requests[i]))
				if err != nil {
					continue // s.checker has already noted the error
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	all.Wait()
}

// bodies posts bodies that a careless or hostile caller might post: bodies of the maximum size, and small compressed bodies that expand.
func (s *storm) bodies(n int) {
	large := []byte(`{"parent":{"metadata":{"annotations":{"x":"` + strings.Repeat("x", 8<<20-100) + `"}}}}`)
	many := []byte(`{"parent":{"status":{"members":[` + strings.Repeat("{},", 199_000) + `{}]}}}`)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			res, err := s.client().Post(s.groups[0].URL+"/sync", "application/json", bytes.NewReader([][]byte{large, many}[i%2]))
			if err != nil {
				return // the server closed the connection, which also counts as an answer
			}
			_ = res.Body.Close()
			s.checker.largeBodies.Add(1)
			if res.StatusCode == http.StatusTooManyRequests {
				s.checker.largeRefused.Add(1)
			}
		})
	}
	all.Wait()
}

// The server answers each call within Metacontroller's time, or refuses it with Retry-After. Neither goroutines nor memory grow without bound. After
// the storm, every group comes up without help, with one VM for each member.
//
// The bound of goroutines is one for each open connection, one for each slot, and a few more. The bound of memory is the size of a group (16 KB) times
// the number of groups, plus the budgets of bodies.
func TestAStormOfCallsWhileVCenterIsSlowIsAnsweredInTimeAndAllGroupsComeUp(t *testing.T) {
	thin.NotShort(t)
	groups, calls, bodies, slow := 24, 400, 4, time.Second
	if *overloadFull {
		groups, calls, bodies, slow = 1000, 20_000, 64, 5*time.Second
	}
	// The test is not parallel because it counts all goroutines of the process. It runs in a bubble, where only waiting takes time.
	synctest.Test(t, func(t *testing.T) { newStorm(t, groups).pass(calls, bodies, slow) })
}

func (s *storm) pass(calls, bodies int, slow time.Duration) {
	t := s.t
	up(t, s.groups[0]) // so that the server has read vCenter before the storm
	goroutines, before := gauge()
	s.checker.goroutines.Store(0)
	s.wire.On(func(vcsim.Call) vcsim.Break { return vcsim.Break{Kind: vcsim.Stalled, Stall: slow} })

	began := time.Now()
	var both sync.WaitGroup
	both.Go(func() { s.callAll(calls) })
	both.Go(func() { s.bodies(bodies) })
	both.Wait()
	most := int(s.checker.goroutines.Load())
	t.Logf("%d groups, %d callers, vCenter answers in %s: %d calls answered, %d refused, in %s; the longest took %s; %d large bodies (%d refused)",
		len(s.groups), callers, slow, s.checker.ok.Load(), s.checker.refused.Load(), time.Since(began).Round(time.Millisecond), s.checker.worst.Round(time.Millisecond), s.checker.largeBodies.Load(), s.checker.largeRefused.Load())
	for _, wrong := range slices.Compact(s.checker.wrong) {
		t.Errorf("a call went wrong: %s", wrong)
	}
	if s.checker.ok.Load() == 0 {
		t.Error("all calls were refused or failed; want some answered")
	}

	s.wire.On(nil)
	began = time.Now()
	s.recover()
	t.Logf("all groups are up %s after vCenter answers again", time.Since(began).Round(time.Millisecond))
	after, bytes := 0, uint64(0)
	eventually(t, patience, "the goroutines of the storm end", func() bool {
		s.clients.CloseIdleConnections()
		s.transport.CloseIdleConnections()
		runtime.GC()
		after, bytes = gauge()
		return after <= goroutines+32
	})
	t.Logf("goroutines: %d before, %d at most, %d after; memory: %d MB before, %d MB after", goroutines, most, after, before>>20, bytes>>20)
	// Each connection has a goroutine that serves and one that reads ahead. The callers' own goroutines count, too, and so do those of a connection that
	// has not quite ended when the next one begins.
	if most > goroutines+10*(callers+bodies)+64 {
		t.Errorf("%d goroutines at the same time, %d before the storm; want at most %d", most, goroutines, goroutines+10*(callers+bodies)+64)
	}
	const pod = 256 << 20 // the memory limit of the Pod in the manifests (resources.limits.memory)
	if bytes > before+pod/8 {
		t.Errorf("%d MB before, %d MB after", before>>20, bytes>>20)
	}
}

// CloseIdleConnections lets http.Client.CloseIdleConnections work.
func (c *checker) CloseIdleConnections() { c.next.CloseIdleConnections() }

// recover calls for all groups, as Metacontroller would, until each is up, and checks that each member has one VM.
func (s *storm) recover() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all sync.WaitGroup
	work := make(chan *metacontroller.Group)
	for range 10 {
		all.Go(func() {
			for g := range work {
				for {
					a, err := g.Sync(ctx)
					if err == nil && metacontroller.Running(a) {
						break
					}
					select {
					case <-ctx.Done():
						s.t.Errorf("%s is not up: %v, %s %s", g.Name, err, a.Status.Phase, a.Status.LastMessage)
						return
					case <-time.After(time.Second):
					}
				}
			}
		})
	}
	for _, g := range s.groups { // one call for each group, so that the server has a lease for every group
		_, _ = g.Sync(ctx)
	}
	for _, g := range s.groups {
		select {
		case work <- g:
		case <-ctx.Done():
		}
	}
	close(work)
	all.Wait()
	names := map[string]int{}
	for _, vm := range s.members() {
		names[vm.Name]++
	}
	for _, g := range s.groups {
		if names[g.Name+"-0"] != 1 {
			s.t.Errorf("%s has %d VMs; want 1", g.Name, names[g.Name+"-0"])
		}
	}
	if len(names) != len(s.groups) {
		s.t.Errorf("%d VMs for %d members", len(names), len(s.groups))
	}
}

func newStorm(t *testing.T, groups int) *storm {
	s := &storm{rig: newTLSRig(t, vcsim.Config{}), checker: &checker{}}
	s.checker.next = s.network.Transport()
	s.checker.next.MaxIdleConnsPerHost = callers
	s.clients = &http.Client{Transport: s.checker, Timeout: 2 * metacontrollerWaits}
	s.wire = s.rig.wire()
	url := s.serve(func(v *vsphere.Config, _ *loop.Config) { s.through(s.wire, v) }).url
	for i := range groups {
		g := metacontroller.New(url, "default", fmt.Sprintf("g%d", i), fmt.Sprintf("uid-g%d", i), 1)
		g.Client, g.Every = s.clients, time.Second
		s.groups = append(s.groups, g)
	}
	return s
}
