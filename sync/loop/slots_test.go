package loop

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/limiter"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// day is a configuration with leases so long that a test needs one hook call.
var day = Config{Slots: 64, Lease: 24 * time.Hour, Resync: time.Hour}

// numberFor returns how many clones of the template can run at once.
func numberFor(l hooks) plan.Limit { return l.Slots().Limits[3] }

// bothQueues runs a test with a vCenter that shows queued tasks as queued, and with one that shows them as running.
func bothQueues(t *testing.T, test func(t *testing.T, unseen bool)) {
	t.Run("tasks are queued", func(t *testing.T) { test(t, false) })
	t.Run("queued tasks say that they run", func(t *testing.T) { test(t, true) })
}

func TestASmallGroupIsUpWithinTwoCloneTimesAlsoWhereVCenterQueues(t *testing.T) {
	bothQueues(t, func(t *testing.T, unseen bool) {
		m := newModel(40 * time.Second)
		m.limit = &limit{room: 4, unseen: unseen}
		bubble(t, m, day, func(t *testing.T, l hooks) {
			large := int32(thin.Of(1000, 10))
			l.Sync(call("large", large))
			time.Sleep(15 * time.Minute)
			for i := range 6 {
				small := call(fmt.Sprint("small", i), 1)
				l.Sync(small)
				took := until(t, time.Hour, "the small group's member on", func() bool { _, on := m.members(small.Ref()); return on == 1 })
				if took > 81*time.Second { // with its folder and its power-on
					t.Errorf("took %s: %+v", took, numberFor(l))
				}
				time.Sleep(3 * time.Minute)
			}
			if !unseen && !slices.ContainsFunc(l.Groups()[0].Actions, func(a plan.ActionReport) bool { return a.QueuedSeconds > 1 && a.DurationSeconds > 40+a.QueuedSeconds-1 }) {
				t.Errorf("no action says that vCenter queued it: %+v", l.Groups()[0].Actions)
			}
		})
	})
}

// However many groups another tenant has, the steps of a tenant that has nothing in progress don't wait for theirs. Of several such tenants, one has the
// slot that is kept for them, and the others wait for the next that is free.
func TestATenantThatHasNothingInProgressWaitsForNoOther(t *testing.T) {
	m, cfg := newModel(10*time.Minute), day
	cfg.Slots = 8
	bubble(t, m, cfg, func(t *testing.T, l hooks) {
		var calls []plan.Call
		for i := range 100 {
			calls = append(calls, call(fmt.Sprint("other", i), 1))
		}
		syncing(l, time.Minute, calls...)
		began := time.Now()
		for i := range 6 {
			web := call(fmt.Sprint("web", i), 1)
			web.Group.Namespace = fmt.Sprint("team-", i)
			calls = append(calls, web)
		}
		for i, of := range calls[100:] {
			until(t, 24*time.Hour, of.Group.Name+" is up", func() bool {
				syncing(l, 3*time.Second, calls...)
				_, on := m.members(of.Ref())
				return on == 1
			})
			if took := time.Since(began); i == 0 && took > 11*time.Minute || took > 22*time.Minute {
				t.Errorf("beside 100 groups of another tenant, %s was up after %s; want one clone of 10 m, and of later ones two", of.Group.Name, took)
			}
		}
		l.mu.Lock()
		running, peak := 0, m.peak
		for _, n := range l.working {
			running += n
		}
		l.mu.Unlock()
		if running != m.running() || peak > cfg.Slots+2 {
			t.Errorf("%d steps are counted of %d that run, and %d ran at once; want at most %d", running, m.running(), peak, cfg.Slots+2)
		}
	})
}

// The group has a running clone, so it can't take the extra slot, which only an idle group can take.
func TestAPowerOnDoesNotWaitForClones(t *testing.T) {
	for name, c := range map[string]struct{ begin, clones int }{"the clones' limit is reached": {8, 8}, "clones take all that --slots permits them": {16, 15}} {
		t.Run(name, func(t *testing.T) {
			m, cfg := newModel(0), day
			m.took[plan.PowerOn] = 5 * time.Second
			cfg.Slots, cfg.Begin = 16, c.begin
			bubble(t, m, cfg, func(t *testing.T, l hooks) {
				web := call("web", 4)
				m.bringUp(t, web)
				m.mu.Lock()
				m.took[plan.Clone] = time.Hour
				m.mu.Unlock()
				web.Group.Spec.Replicas, web.Group.Generation = new(int32(5)), 2
				l.Sync(web)
				l.Sync(call("large", 100))
				time.Sleep(time.Minute)
				if n := numberFor(l); n.Running < c.clones {
					t.Fatalf("%+v", n)
				}
				m.change(web.Ref(), func(s *plan.VCenterState) {
					for i := range s.VMs {
						s.VMs[i].Power = plan.PoweredOff
					}
				})
				until(t, 21*time.Second, "all four are on again, one after the other", func() bool { _, on := m.members(web.Ref()); return on == 4 })
			})
		})
	}
}

func TestAnActionWhoseTaskMakesNoProgressIsNotReplacedByAnother(t *testing.T) {
	m, r, cfg := newModel(24*time.Hour), prometheus.NewRegistry(), day
	cfg.Metrics = r
	bubble(t, m, cfg, func(t *testing.T, l hooks) {
		c := call("web", 100)
		l.Sync(c)
		time.Sleep(10 * time.Minute)
		began := m.running()
		m.change(c.Ref(), func(s *plan.VCenterState) {
			s.Stalled = map[string]plan.Fault{}
			for i := range int32(4) {
				s.Stalled[plan.MemberName("web", i)] = plan.Fault{Reason: plan.ReasonTaskStalled}
			}
		})
		time.Sleep(time.Minute)
		if n := m.running(); n > began+1 || began != limiter.Begin {
			t.Errorf("%d running, %d before: %+v", n, began, numberFor(l))
		}
		if all := gathered(t, r); !slices.Contains(all, "slots_reduced_total{kind=clones,reason=stalled} 1") {
			t.Errorf("%q", all)
		}
	})
}

func TestEachKindOfActionsHasItsNumber(t *testing.T) {
	kinds := map[plan.Op]limiter.Kind{plan.Clone: limiter.Clones,
		plan.PowerOn: limiter.Power, plan.PowerOff: limiter.Power, plan.Reset: limiter.Power, plan.ShutdownGuest: limiter.Power}
	for _, op := range plan.Ops() {
		want := cmp.Or(kinds[op], limiter.Others)
		if got := workOf(&plan.Action{Op: op}, &plan.VCenterState{}); op != plan.ConfirmGone && (got.Kind != want || got.LatencyClass == "" && op != plan.Clone) {
			t.Errorf("%s: %+v, want one of the %s", op, got, want)
		}
	}
}

func TestAGroupOfOneDoesNotWaitForALargeDeletion(t *testing.T) {
	m := newModel(10 * time.Second)
	m.took[plan.PowerOff], m.took[plan.Destroy] = 10*time.Second, 10*time.Second
	cfg := day
	cfg.Slots = 4
	bubble(t, m, cfg, func(t *testing.T, l hooks) {
		large := call("large", 60)
		l.Sync(large)
		until(t, time.Hour, "the large group on", func() bool { _, on := m.members(large.Ref()); return on == 60 })
		l.Sync(deletion(large))
		time.Sleep(time.Minute)
		for i := range 3 {
			small := call(fmt.Sprint("small", i), 1)
			l.Sync(small)
			took := until(t, time.Hour, "the small group's member on", func() bool { _, on := m.members(small.Ref()); return on == 1 })
			if took > 21*time.Second {
				t.Errorf("%s is up after %s", small.Group.Name, took)
			}
		}
	})
}

func TestOfManySmallGroupsOneAfterTheOtherIsUpAndGone(t *testing.T) {
	m := newModel(10 * time.Second)
	m.took[plan.PowerOn], m.took[plan.PowerOff], m.took[plan.Destroy] = 10*time.Second, 10*time.Second, 10*time.Second
	cfg := day
	cfg.Slots = 8
	bubble(t, m, cfg, func(t *testing.T, l hooks) {
		const groups = 60
		all := make([]plan.Call, groups)
		for i := range all {
			all[i] = call(fmt.Sprint("web", i), 2)
			all[i].Group.Spec.Inventory = v1alpha1.InventoryNone
		}
		middle := func(what string, done func(members, on int) bool) {
			t.Helper()
			half := time.Duration(0)
			for began := time.Now(); ; time.Sleep(5 * time.Second) { // as often as Metacontroller calls: a folder needs a recent call
				n := 0
				for i := range all {
					if l.Sync(all[i]); done(m.members(all[i].Ref())) {
						n++
					}
				}
				took := time.Since(began)
				if half == 0 && n >= groups/2 {
					half = took
				}
				if n < groups && took < time.Hour {
					continue
				}
				if n < groups || half > took*3/4 {
					t.Errorf("%d of %d groups are %s after %s, and half of them after %s; want all, and half of them in three quarters of the time", n, groups, what, took, half)
				}
				return
			}
		}
		middle("up", func(_, on int) bool { return on == 2 })
		for i := range all {
			all[i] = deletion(all[i])
		}
		middle("gone", func(members, _ int) bool { return members == 0 })
	})
}

// Neither a new group of one nor an added member waits until a hundred groups are up. Alone, either takes 40 s.
func TestAFewStepsDoNotWaitForManyGroups(t *testing.T) {
	thin.NotShort(t)
	m := newModel(40 * time.Second)
	cfg := day
	cfg.Slots = 8
	bubble(t, m, cfg, func(t *testing.T, l hooks) {
		web, others := call("web", 3), []plan.Call{}
		for i := range 100 {
			others = append(others, call(fmt.Sprint("other", i), 4))
			others[i].Group.Spec.Inventory = v1alpha1.InventoryNone
		}
		all := func() { // as often as Metacontroller calls: a folder needs a recent call
			for i := range others {
				l.Sync(others[i])
			}
		}
		web.Group.Spec.Inventory = v1alpha1.InventoryNone
		l.Sync(web)
		until(t, time.Hour, "the first group on", func() bool { _, on := m.members(web.Ref()); return on == 3 })
		for range 60 {
			all()
			time.Sleep(5 * time.Second)
		}
		soon := func(what string, c plan.Call, want int) {
			t.Helper()
			began := time.Now()
			for _, on := m.members(c.Ref()); on < want && time.Since(began) < time.Hour; _, on = m.members(c.Ref()) {
				all()
				l.Sync(c)
				time.Sleep(5 * time.Second)
			}
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("beside a hundred groups, %s is up after %s; want 5m", what, took)
			}
		}
		soon("a group of one", call("small", 1), 1)
		web.Group.Spec.Replicas, web.Group.Generation = new(int32(4)), 2
		soon("another member", web, 4)
	})
}

// While new groups of one come faster than they can be up, a large group still gets slots.
func TestALargeGroupGetsSlotsBesideEverNewSmallOnes(t *testing.T) {
	m := newModel(10 * time.Second)
	cfg := day
	cfg.Slots = 4
	bubble(t, m, cfg, func(t *testing.T, l hooks) {
		for i := range 20 {
			l.Sync(call(fmt.Sprint("first", i), 1))
		}
		large := call("large", 40)
		large.Group.Spec.Inventory = v1alpha1.InventoryNone
		l.Sync(large)
		for i := range 600 {
			l.Sync(call(fmt.Sprint("small", i), 1))
			time.Sleep(2 * time.Second)
		}
		if _, on := m.members(large.Ref()); on < 20 {
			t.Errorf("%d members of the large group are on after 20 minutes; want 20", on)
		}
	})
}

func TestLargeGroupsTakeTurns(t *testing.T) {
	m := newModel(10 * time.Second)
	cfg := day
	cfg.Slots = 8
	bubble(t, m, cfg, func(t *testing.T, l hooks) {
		all := []plan.Call{call("a", 60), call("b", 60), call("c", 60)}
		for i := range all {
			l.Sync(all[i])
		}
		apart := 0
		until(t, time.Hour, "all on", func() bool {
			least, most := 60, 0
			for i := range all {
				_, on := m.members(all[i].Ref())
				least, most = min(least, on), max(most, on)
			}
			apart = max(apart, most-least)
			return least == 60
		})
		if apart > 2*turnSteps {
			t.Errorf("one of three large groups had %d members more than another; want %d at most", apart, 2*turnSteps)
		}
	})
}
