package loop

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// hooks calls a loop as package hook does: each request is decoded anew, so a test may change what it sent.
type hooks struct{ *Loop }

func (h hooks) Sync(c plan.Call) plan.Result {
	c.Group, c.Children = c.Group.DeepCopy(), maps.Clone(c.Children)
	return h.Loop.Sync(c)
}

// bubble runs a test in fake time, with a loop that drives a model.
func bubble(t *testing.T, m *model, cfg Config, test func(t *testing.T, l hooks)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if cfg.Slots == 0 {
			cfg.Slots = 8
		}
		if cfg.Lease == 0 {
			cfg.Lease, cfg.Resync = 90*time.Second, 30*time.Second
		}
		cfg.Log = zerolog.Nop()
		l := hooks{New(cfg, m)}
		m.loop = l
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { l.Run(ctx); close(done) }()
		test(t, l)
		cancel()
		<-done
	})
}

// until sleeps fake seconds until a condition is met, and returns how long it took, to 10 ms or 1 %.
func until(t *testing.T, limit time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > limit {
			t.Fatalf("%s: not within %s", what, limit)
		}
		time.Sleep(max(10*time.Millisecond, time.Since(start)/100))
	}
	return time.Since(start)
}

// bringUp calls for a group, and waits until all its members are on.
func (m *model) bringUp(t *testing.T, c plan.Call) {
	t.Helper()
	m.loop.Sync(c)
	until(t, time.Minute, "all members on", func() bool { _, on := m.members(c.Ref()); return on == int(*c.Group.Spec.Replicas) })
}

func TestOneCallBringsAGroupUp(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{Slots: 4}, func(t *testing.T, l hooks) {
		c := call("web", 10)
		l.Sync(c)
		took := until(t, time.Minute, "10 members on", func() bool { _, on := m.members(c.Ref()); return on == 10 })
		if took > 3500*time.Millisecond { // three rounds of 4 clones, each 1 s
			t.Errorf("took %s", took)
		}
		if m.peak > 5 {
			t.Errorf("%d actions at once with 4 slots and one more", m.peak)
		}
		synctest.Wait()
		if r := l.Sync(c); r.Status.Phase != v1alpha1.PhaseRunning {
			t.Errorf("%s: %s", r.Status.Phase, r.Status.LastMessage)
		}
	})
}

func TestASmallGroupNeverWaitsBehindALargeOne(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{Slots: 8}, func(t *testing.T, l hooks) {
		large, small := call("large", 500), call("small", 1)
		l.Sync(large)
		synctest.Wait()
		l.Sync(small)
		took := until(t, time.Minute, "the small group's member on", func() bool { _, on := m.members(small.Ref()); return on == 1 })
		if took > 2*time.Second {
			t.Errorf("took %s, more than 2 clone times", took)
		}
	})
}

func TestGroupsTakeTurns(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{Slots: 2}, func(t *testing.T, l hooks) {
		a, b, c := call("a", 20), call("b", 20), call("c", 20)
		for _, x := range []plan.Call{a, b, c} {
			l.Sync(x)
		}
		time.Sleep(15 * time.Second)
		begun := map[string]int{}
		for _, line := range m.begun() {
			begun[strings.Fields(line)[1]]++
		}
		if low, high := min(begun["a"], begun["b"], begun["c"]), max(begun["a"], begun["b"], begun["c"]); low < 20 || high-low > low/3 {
			t.Errorf("after 15 s these have begun as many actions: %v", begun)
		}
	})
}

func TestWithoutCallsActionsStopWhenTheLeaseEnds(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{Lease: 30 * time.Second, Resync: 10 * time.Second}, func(t *testing.T, l hooks) {
		c := call("web", 2)
		m.bringUp(t, c)
		off := func(s *plan.VCenterState) { s.VMs[0].Power = plan.PoweredOff }
		time.Sleep(29 * time.Second)
		m.change(c.Ref(), off)
		until(t, time.Second, "healed under the lease", func() bool { _, on := m.members(c.Ref()); return on == 2 })
		time.Sleep(2 * time.Second)
		m.change(c.Ref(), off)
		time.Sleep(time.Hour)
		if _, on := m.members(c.Ref()); on != 1 {
			t.Error("acted without a lease")
		}
		l.Sync(c)
		until(t, time.Second, "healed after a new call", func() bool { _, on := m.members(c.Ref()); return on == 2 })
	})
}

func TestAStaleCallIsAnsweredAndIgnored(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		stale, fresh := call("web", 5), call("web", 2)
		fresh.Group.Generation = 2
		m.bringUp(t, fresh)
		if r := l.Sync(stale); r.Status.DesiredReplicas != 2 {
			t.Errorf("the stale call is answered with %d desired", r.Status.DesiredReplicas)
		}
		time.Sleep(time.Minute)
		if all, _ := m.members(fresh.Ref()); all != 2 {
			t.Errorf("%d members", all)
		}
	})
}

func TestFinalizingIsSticky(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 3)
		m.bringUp(t, c)
		until(t, time.Minute, "finalized", func() bool { return l.Sync(deletion(c)).Finalized })
		l.Sync(c)
		time.Sleep(time.Minute)
		if all, _ := m.members(c.Ref()); all != 0 {
			t.Errorf("%d members after finalize", all)
		}
	})
}

// One replica of the server has a lease, and the other finalizes the group. Because of what the first has seen, it must not recreate what the other
// removes, although its last hook call was a moment ago.
func TestAReplicaRecreatesNothingThatAnotherOneFinalizes(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 2)
		m.bringUp(t, c)
		l.Sync(c)
		begun := len(m.begun())
		m.change(c.Ref(), func(s *plan.VCenterState) { // the other replica asks a guest to shut down,
			s.VMs[0].Generation = 2
		})
		synctest.Wait()
		m.change(c.Ref(), func(s *plan.VCenterState) { s.VMs = nil }) // and removes the members
		time.Sleep(5 * time.Second)
		if n := len(m.begun()); n != begun {
			t.Errorf("acted against a deletion: %v", m.begun()[begun:])
		}
	})
}

func TestACloneInProgressWhenTheDeleteArrivesIsNotLeftBehind(t *testing.T) {
	m := newModel(10 * time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 3)
		l.Sync(c)
		time.Sleep(5 * time.Second)
		until(t, time.Minute, "finalized", func() bool { return l.Sync(deletion(c)).Finalized })
		time.Sleep(time.Minute)
		if all, _ := m.members(c.Ref()); all != 0 {
			t.Errorf("%d members after finalize", all)
		}
	})
}

func TestAFailingGroupBacksOffAndDelaysNoOther(t *testing.T) {
	m := newModel(time.Second)
	m.fault = func(ref plan.Ref, a plan.Action) error {
		if ref.Name == "bad" && a.Op == plan.Clone {
			return fault{Reason: "DatastoreFull", Message: "datastore LocalDS_0 is full"}
		}
		return nil
	}
	bubble(t, m, Config{Slots: 4}, func(t *testing.T, l hooks) {
		bad, good := call("bad", 50), call("good", 20)
		bad.Group.Spec.Inventory = v1alpha1.InventoryNone // the calls here bring no children
		l.Sync(bad)
		l.Sync(good)
		took := until(t, time.Minute, "the good group is up", func() bool { _, on := m.members(good.Ref()); return on == 20 })
		if took > 10*time.Second {
			t.Errorf("the good group took %s", took)
		}
		time.Sleep(time.Minute)
		tries := 0
		for _, line := range m.begun() {
			if strings.HasPrefix(line, "Clone bad") {
				tries++
			}
		}
		if tries < 5 || tries > 75 {
			t.Errorf("%d tries in about a minute", tries)
		}
		r := l.Sync(bad)
		if r.Status.Phase != v1alpha1.PhasePending || !strings.Contains(r.Status.LastMessage, "datastore LocalDS_0 is full") {
			t.Errorf("%s: %s", r.Status.Phase, r.Status.LastMessage)
		}
		m.setFault(nil)
		until(t, 5*time.Minute, "the bad group is up", func() bool { l.Sync(bad); _, on := m.members(bad.Ref()); return on == 50 })
	})
}

func TestAPanicInAnActionFailsOnlyThatAction(t *testing.T) {
	m := newModel(0)
	var before atomic.Bool
	m.fault = func(_ plan.Ref, a plan.Action) error {
		if a.Key == "web-1" && !before.Swap(true) {
			panic("boom")
		}
		return nil
	}
	bubble(t, m, Config{Slots: 1}, func(t *testing.T, l hooks) {
		c := call("web", 3)
		l.Sync(c)
		until(t, 10*time.Second, "up despite the panic", func() bool { _, on := m.members(c.Ref()); return on == 3 })
	})
}

func TestNothingIsDoneWhileVCenterIsUnknown(t *testing.T) {
	m := newModel(0)
	m.unknown = true
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 3)
		r := l.Sync(c)
		time.Sleep(30 * time.Second)
		if n := len(m.begun()); n > 0 || r.Status.Phase != v1alpha1.PhasePending {
			t.Errorf("%d actions, %s", n, r.Status.Phase)
		}
		m.mu.Lock()
		m.unknown = false
		m.mu.Unlock()
		l.Sync(c)
		l.Changed("")
		until(t, time.Second, "up", func() bool { _, on := m.members(c.Ref()); return on == 3 })
	})
}

func TestStopStartsNothingMoreAndReturns(t *testing.T) {
	m := newModel(time.Hour)
	synctest.Test(t, func(t *testing.T) {
		l := hooks{New(Config{Slots: 2, Lease: time.Minute, Resync: time.Second, Log: zerolog.Nop()}, m)}
		m.loop = l
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { l.Run(ctx); close(done) }()
		l.Sync(call("web", 10))
		time.Sleep(time.Second)
		begun := len(m.begun())
		cancel()
		<-done
		if n := len(m.begun()); n != begun {
			t.Errorf("%d actions began after the stop", n-begun)
		}
	})
}

func TestAPreviewDoesNothing(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 2)
		r, outlook, err := l.Preview(c)
		if err != nil || len(outlook.Steps) != 5 || r.Status.DesiredReplicas != 2 {
			t.Errorf("%v, %+v", err, outlook.Steps)
		}
		time.Sleep(time.Minute)
		if n := len(m.begun()); n > 0 {
			t.Errorf("%d actions", n)
		}
	})
}

// With -race: a hook call and a round read at the same time what a group waits for.
func TestCallsAndTurnsShareNothingThatChanges(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 1)
		for range 200 {
			var both sync.WaitGroup
			both.Go(func() { l.Sync(c) })
			both.Go(func() { l.Changed(c.Group.UID) })
			both.Wait()
			n := int32(1 + len(m.begun())%3)
			g := *c.Group
			g.Spec.Replicas, g.Generation = &n, g.Generation+1
			c.Group = &g
			c.Children = map[plan.ChildKey]plan.ObservedChild{}
			if n == 1 {
				c.Children[plan.ChildKey{Kind: plan.KindConfigMap, Name: "web-members"}] = plan.ObservedChild{}
			}
		}
	})
}

func TestAForgottenGroupLeavesNothingBehind(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		l.Sync(call("old", 1))
		for range 5 {
			time.Sleep(time.Hour)
			l.Sync(call("new", 1))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.groups) != 1 {
			t.Errorf("%d groups are remembered", len(l.groups))
		}
	})
}
