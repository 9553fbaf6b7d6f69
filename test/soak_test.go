package test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var soakFor = flag.Duration("soak.for", time.Second, "how long the soak's churn lasts; make soak: 5 minutes")

// TestChurnLeaksNothing creates, scales, updates and deletes groups for a while, with two replicas of the server. Now and then it restarts a replica,
// drops the sessions, or stops vCenter. It compares the resources in use after the first part with those at the end. At both times, all groups are
// deleted and nothing is running.
func TestChurnLeaksNothing(t *testing.T) {
	thin.NotShort(t)
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 16 << 10
	defer func() { runtime.MemProfileRate = rate }()
	t.Setenv("TMPDIR", t.TempDir()) // so that every file left in the directory is the test's
	s := newSoak(t)
	s.churn(*soakFor / 3)
	before := s.quiet("first quiet")
	s.churn(*soakFor - *soakFor/3)
	after := s.quiet("last quiet")
	t.Logf("%d groups, %d replicas started, %d faults", s.lived.Load(), s.started, s.troubles)
	t.Log("\n" + strings.Join(s.table, "\n"))
	s.compare(before, after)
	if t.Failed() {
		t.Logf("left in the temporary directory:\n%s", strings.Join(filesIn(os.TempDir()), "\n"))
	}
}

// soak has two replicas of the server, and the clients that call them.
type soak struct {
	*rig
	mu         sync.Mutex
	servers    [2]*serverReplica
	registries [2]*prometheus.Registry
	web        *http.Client
	lived      atomic.Int64
	lanes      int // how many lives run at the same time
	began      time.Time
	started    int
	troubles   int
	abandoned  int
	logouts    failedLogouts
	outage     bool // whether vCenter was down since sessions were last dropped
	table      []string
}

func newSoak(t *testing.T) *soak {
	s := &soak{began: time.Now(), lanes: 2, web: &http.Client{Transport: &http.Transport{}}, rig: newRealRig(t, vcsim.Config{
		Templates: []string{"vm-operator-template", otherTemplate}, Guest: vcsim.Guest{Tools: true},
		Latency: vcsim.Latency{Clone: 20 * time.Millisecond, Power: 5 * time.Millisecond, Reconfigure: 5 * time.Millisecond, Other: 2 * time.Millisecond}})}
	if *soakFor >= time.Minute {
		s.lanes = 4
	}
	s.must(s.admin.Logout(context.Background())) // so that Counts has only the sessions of replicas
	s.start(0)
	s.start(1)
	s.table = append(s.table, figuresHead)
	return s
}

func (s *soak) start(i int) {
	registry := prometheus.NewRegistry()
	c := s.serve(func(v *vsphere.Config, l *loop.Config) {
		v.Metrics, l.Metrics, v.Log = registry, registry, zerolog.New(&s.logouts)
		l.Lease, l.Resync = 4*time.Second, 2*time.Second
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers[i], s.registries[i], s.started = c, registry, s.started+1
}

func (s *soak) anyURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers[rand.IntN(2)].url
}

// churn runs lives in parallel, and causes faults, for the duration d. It returns when the last life has ended.
func (s *soak) churn(d time.Duration) {
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for i := range s.lanes {
		all.Go(func() {
			for time.Now().Before(end) && !s.t.Failed() { // after a failure, further lives would only repeat it for minutes
				s.life(fmt.Sprintf("web%d", i))
			}
		})
	}
	all.Go(func() {
		for sampled := time.Now(); time.Now().Before(end); {
			time.Sleep(min(1500*time.Millisecond, d/4))
			s.trouble()
			if time.Since(sampled) > max(*soakFor/10, time.Second) { // not more often, because a sample takes some time
				sampled = time.Now()
				s.sample("churn")
			}
		}
	})
	all.Wait()
}

// life runs the life of one group. Each group has a new UID, but groups reuse names.
func (s *soak) life(name string) {
	n := s.lived.Add(1)
	g := metacontroller.New("", "default", name, fmt.Sprintf("uid-soak-%d", n), int32(1+rand.IntN(3)))
	g.Client = s.web
	g.Spec.Deletion.ShutdownTimeoutSeconds = seconds(1)
	if n%3 == 0 {
		g.Spec.Service = &v1alpha1.Service{}
		g.Spec.Placement.AntiAffinity = v1alpha1.AntiAffinityPreferred
	}
	for _, edit := range []func(){
		func() {},
		func() { g.Scale(int32(rand.IntN(4))) },
		func() { g.Edit(func(spec *v1alpha1.VmGroupSpec) { spec.Template, spec.Memory = otherTemplate, 8 }) },
	} {
		edit()
		if !s.drive(g, g.Sync, metacontroller.Running) {
			return
		}
	}
	s.drive(g, g.Finalize, func(a metacontroller.Answer) bool { return a.Finalized })
}

// drive calls the replicas in turn until an answer is as expected. A replica that is being restarted refuses calls.
func (s *soak) drive(g *metacontroller.Group, call func(context.Context) (metacontroller.Answer, error), holds func(metacontroller.Answer) bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), realPatience)
	defer cancel()
	for {
		g.URL = s.anyURL()
		a, err := call(ctx)
		if err == nil && holds(a) {
			return true
		}
		select {
		case <-ctx.Done():
			s.t.Errorf("%s (%s): %v, %s %s", g.Name, g.UID, err, a.Status.Phase, a.Status.LastMessage)
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *soak) trouble() {
	s.troubles++
	switch s.troubles % 4 {
	case 0:
		s.DropSessions()
		s.outage = false
	case 1:
		// A login whose reply is lost leaves a session that only vCenter's time limit ends.
		for began := time.Now(); !s.watched(); time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > realPatience {
				s.t.Errorf("waited in vain for %s until both replicas are logged in before an outage: %+v", realPatience, s.Counts())
				return
			}
		}
		s.outage = true
		s.Down()
		time.Sleep(50 * time.Millisecond)
		s.Up()
	case 2:
		i := s.troubles / 4 % 2
		s.servers[i].stop()
		s.start(i)
	case 3:
		s.LoseReply("ModifyListView", 1)
		s.LoseReply("WaitForUpdatesEx", 1)
	}
}

// watched reports whether both replicas have a session and a collector, and vCenter has no others.
func (s *soak) watched() bool {
	c := s.Counts()
	return c.Sessions == 2 && c.Collectors == 2
}

// endAbandoned ends sessions that no client uses, as vCenter does after its time limit. A session is abandoned if, on a busy machine, its logout took
// longer than the replica waits. A collector is abandoned if its creation got no reply in an outage; it ends with its session.
func (s *soak) endAbandoned() {
	s.t.Helper()
	for began := time.Now(); !s.watched() && time.Since(began) < 2*time.Minute; {
		time.Sleep(20 * time.Millisecond)
	}
	if s.watched() {
		return
	}
	c := s.Counts()
	if !(s.outage && lostCollectors(c)) && s.logouts.Swap(0) == 0 {
		if s.abandoned++; s.abandoned > 1 {
			s.t.Fatalf("sessions were abandoned more than once without a failed logout: %+v", c)
		}
	}
	s.t.Logf("a session or a collector is left: %+v", c)
	s.DropSessions()
	s.outage = false
}

// failedLogouts counts the logouts that replicas gave up, by what they log.
type failedLogouts struct{ atomic.Int64 }

func (f *failedLogouts) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("vCenter logout failed")) {
		f.Add(1)
	}
	return len(line), nil
}

// lostCollectors reports whether the only surplus in vCenter is one collector, or one for each replica.
func lostCollectors(c vcsim.Counts) bool {
	more := c.Collectors - 2
	return c.Sessions == 2 && 0 < more && more <= 2
}

// quiet waits until nothing is running, and takes the figures. The number of open files varies, because a client keeps as many connections as it had
// calls at the same time. So quiet closes all connections before each of three counts, and takes the lowest count.
func (s *soak) quiet(when string) figures {
	s.t.Helper()
	if s.t.Failed() {
		s.t.FailNow() // after a failure, the condition that quiet waits for may never hold
	}
	s.Heal()
	s.await("all members are gone", func() bool { return len(s.members()) == 0 })
	f := s.reconnected(when)
	for range 2 {
		again := s.reconnected(when)
		again.files = min(again.files, f.files)
		f = again
	}
	return f
}

// reconnected closes all connections to vCenter, waits until both replicas watch vCenter again and have done what they do right after a login, and
// takes the figures.
func (s *soak) reconnected(when string) figures {
	s.t.Helper()
	s.outage = true
	s.Down()
	s.Up()
	time.Sleep(1200 * time.Millisecond)
	s.endAbandoned()
	s.await("both replicas are logged in, and no one else", s.watched)
	s.await("no replica has a lease", func() bool {
		return leases(s.servers[0].loop)+leases(s.servers[1].loop) == 0
	})
	time.Sleep(1200 * time.Millisecond) // after a login, the server repeats its reads once after a second
	s.web.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	return s.sample(when)
}

// await is eventually, and logs the state of the soak if the condition is never met.
func (s *soak) await(what string, holds func() bool) {
	s.t.Helper()
	var state string
	defer func() {
		if s.t.Failed() {
			s.t.Log(state)
		}
	}()
	eventually(s.t, realPatience, what, func() bool {
		if holds() {
			return true
		}
		state = fmt.Sprintf("members %v, leases %d and %d, %+v", s.members(), leases(s.servers[0].loop), leases(s.servers[1].loop), s.Counts())
		return false
	})
}
