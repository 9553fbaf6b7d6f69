package test

import (
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

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var soakFor = flag.Duration("soak.for", time.Second, "how long the soak's churn lasts; make soak: 5 minutes")

// TestChurnLeaksNothing creates, scales, rolls and deletes groups for a while, with two replicas of the server that are
// restarted now and then, sessions that are dropped and a vCenter that is away; and compares what is there when all is
// deleted and quiet: after the first part, and at the end.
func TestChurnLeaksNothing(t *testing.T) {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 16 << 10
	defer func() { runtime.MemProfileRate = rate }()
	t.Setenv("TMPDIR", t.TempDir()) // so that what is left in it is ours
	s := newSoak(t)
	s.churn(*soakFor / 3)
	s.quiet()
	before := s.sample("first quiet")
	s.churn(*soakFor - *soakFor/3)
	s.quiet()
	after := s.sample("last quiet")
	t.Logf("%d groups lived, %d replicas were started, %d troubles", s.lived.Load(), s.started, s.troubles)
	t.Log("\n" + strings.Join(s.table, "\n"))
	s.compare(before, after)
	if t.Failed() {
		t.Logf("in the temporary directory are:\n%s", strings.Join(filesIn(os.TempDir()), "\n"))
	}
}

// soak is two replicas and those who use them.
type soak struct {
	*rig
	mu         sync.Mutex
	servers    [2]*serverReplica
	registries [2]*prometheus.Registry
	web        *http.Client
	lived      atomic.Int64
	lanes      int // lives that are led side by side
	began      time.Time
	started    int
	troubles   int
	table      []string
}

func newSoak(t *testing.T) *soak {
	s := &soak{began: time.Now(), lanes: 2, web: &http.Client{Transport: &http.Transport{}}, rig: newRealRig(t, vcsim.Config{
		Templates: []string{"vm-operator-template", otherTemplate}, Guest: vcsim.Guest{Tools: true},
		Latency: vcsim.Latency{Clone: 20 * time.Millisecond, Power: 5 * time.Millisecond, Reconfigure: 5 * time.Millisecond, Other: 2 * time.Millisecond}})}
	if *soakFor >= time.Minute {
		s.lanes = 4
	}
	s.must(s.admin.Logout(context.Background())) // sessions are counted
	s.start(0)
	s.start(1)
	s.table = append(s.table, figuresHead)
	return s
}

func (s *soak) start(i int) {
	registry := prometheus.NewRegistry()
	c := s.serve(func(v *vsphere.Config, l *loop.Config) {
		v.Metrics, l.Metrics = registry, registry
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

// churn leads lives side by side, and makes trouble, for a while; it ends when the last life has ended.
func (s *soak) churn(d time.Duration) {
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for i := range s.lanes {
		all.Go(func() {
			for time.Now().Before(end) && !s.t.Failed() { // what fails once would fail for minutes
				s.life(fmt.Sprintf("web%d", i))
			}
		})
	}
	all.Go(func() {
		for sampled := time.Now(); time.Now().Before(end); {
			time.Sleep(min(1500*time.Millisecond, d/4))
			s.trouble()
			if time.Since(sampled) > max(*soakFor/10, time.Second) { // a sample takes its time
				sampled = time.Now()
				s.sample("churn")
			}
		}
	})
	all.Wait()
}

// life is a group's: each has a UID of its own; names come again.
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
		if !s.lead(g, g.Sync, metacontroller.Running) {
			return
		}
	}
	g.Generation++
	s.lead(g, g.Finalize, func(a metacontroller.Answer) bool { return a.Finalized })
}

// lead calls, now this replica, now that, until the answer is as wished. A replica that is being restarted refuses.
func (s *soak) lead(g *metacontroller.Group, call func(context.Context) (metacontroller.Answer, error), wish func(metacontroller.Answer) bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		g.URL = s.anyURL()
		a, err := call(ctx)
		if err == nil && wish(a) {
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
	case 1:
		// A login whose reply is lost leaves a session that only vCenter's time limit ends.
		for began := time.Now(); !s.watched() && time.Since(began) < patience; {
			time.Sleep(5 * time.Millisecond)
		}
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

// watched reports whether both replicas are logged in, know it, and watch vCenter. A list view may be there without its
// collector: the reply to its creation was lost, and it goes with its session.
func (s *soak) watched() bool {
	c := s.Counts()
	return c.Sessions == 2 && c.Collectors >= 2 && c.Collectors <= 2+c.ListViews
}

// quiet waits until nothing is under way: all groups are deleted, both replicas watch vCenter, and what they do a moment
// later is done. (What awaits tasks in vCenter, a collector, a filter and a list view each, is there or not: it is given up
// 30 s after the last task, and what is in the list by then goes with it.)
func (s *soak) quiet() {
	s.t.Helper()
	if s.t.Failed() {
		s.t.FailNow() // what is under way never ends
	}
	s.Heal()
	eventually(s.t, patience, "it is quiet, with both replicas logged in", func() bool {
		return s.watched() && len(s.members()) == 0
	})
	eventually(s.t, patience, "no replica may act for a group", func() bool {
		return len(s.servers[0].loop.Groups())+len(s.servers[1].loop.Groups()) == 0
	})
	time.Sleep(1200 * time.Millisecond) // reads are made once more after a second
	s.web.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
}
