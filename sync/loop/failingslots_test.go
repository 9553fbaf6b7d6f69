package loop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/limiter"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// failing is a world in which clones of some groups fail slowly, each for a cause of its own, and other steps fail once.
type failing struct {
	*model
	others []plan.Call
	bad    bool    // the clones of the other groups fail
	once   plan.Op // this step of the group web fails once, for a moment
}

// newFailing returns such a world with a group web, which is up. Use it in a bubble.
func newFailing() *failing {
	f := &failing{model: newModel(2 * time.Second)}
	f.setFault(func(ref plan.Ref, a plan.Action) error {
		switch {
		case f.bad && a.Op == plan.Clone && strings.HasPrefix(ref.Name, "other"):
			return fault{Reason: "SystemError", Message: "refused"}
		case f.once != "" && a.Op == f.once && ref.Name == "web":
			f.once = ""
			return fault{Reason: "TaskInProgress", Message: "busy for a moment", Transient: true}
		}
		return nil
	})
	return f
}

// fail lets the clones of so many other groups fail, and then take longer, until they fill the slots that are for them.
func (f *failing) fail(l hooks, groups int, then time.Duration) {
	f.set(plan.Ref{}, func(*plan.VCenterState) { f.bad = true })
	for i := range groups {
		f.others = append(f.others, call(fmt.Sprint("other", i), 1))
	}
	syncing(l, time.Minute, f.others...)
	f.set(plan.Ref{}, func(*plan.VCenterState) { f.took[plan.Clone] = then })
	syncing(l, 3*time.Minute, f.others...)
}

var slots32 = Config{Slots: 32, Begin: 30, Lease: day.Lease, Resync: day.Resync}

// A step that failed once doesn't wait for steps of another kind that fail for hours, nor does one that takes no slot wait for any.
func TestAStepThatFailedOnceDoesNotWaitForOthersThatFail(t *testing.T) {
	thin.NotShort(t)
	for _, once := range []plan.Op{plan.PowerOn, plan.Destroy, plan.ConfirmGone} {
		t.Run(string(once), func(t *testing.T) {
			f := newFailing()
			bubble(t, f.model, slots32, func(t *testing.T, l hooks) {
				web := call("web", 1)
				f.bringUp(t, web)
				f.fail(l, 40, 40*time.Minute)
				f.set(plan.Ref{}, func(*plan.VCenterState) { f.once = once })
				if once == plan.PowerOn {
					f.change(web.Ref(), func(s *plan.VCenterState) { s.VMs[0].Power = plan.PoweredOff })
				} else {
					web = deletion(web)
				}
				took := until(t, 10*time.Hour, "web is as it should be", func() bool {
					syncing(l, 3*time.Second, append(f.others, web)...)
					_, on := f.members(web.Ref())
					return once == plan.PowerOn && on == 1 || once != plan.PowerOn && l.Sync(web).Finalized
				})
				if took > time.Minute {
					t.Errorf("beside 40 groups whose clones fail, a step that failed once took %s; want a minute at most", took)
				}
			})
		})
	}
}

// A clone that failed once for one tenant doesn't wait for clones of another that fail for hours.
func TestAStepThatFailedOnceDoesNotWaitForThoseOfAnotherTenant(t *testing.T) {
	thin.NotShort(t)
	f := newFailing()
	bubble(t, f.model, slots32, func(t *testing.T, l hooks) {
		f.fail(l, 40, 40*time.Minute)
		web := call("web", 1)
		web.Group.Namespace = "team-a"
		f.set(plan.Ref{}, func(*plan.VCenterState) { f.once = plan.Clone })
		took := until(t, 10*time.Hour, "web is up", func() bool {
			syncing(l, 3*time.Second, append(f.others, web)...)
			_, on := f.members(web.Ref())
			return on == 1
		})
		if took > 82*time.Minute {
			t.Errorf("beside 40 groups of another tenant whose clones fail, a clone that failed once, after 40 m, and succeeded, after 40 m more, took %s; want 82 m at most", took)
		}
	})
}

// When the trouble ends, the steps that failed take all slots again, once they have run for longer than they took to fail.
func TestWhatFailedBeforeTakesAllSlotsOnceItSucceeds(t *testing.T) {
	thin.NotShort(t)
	f := newFailing()
	bubble(t, f.model, slots32, func(t *testing.T, l hooks) {
		f.fail(l, 60, 2*time.Second)
		f.set(plan.Ref{}, func(*plan.VCenterState) { f.bad, f.took[plan.Clone] = false, 20*time.Minute })
		most := 0
		took := until(t, 10*time.Hour, "all are up", func() bool {
			syncing(l, 3*time.Second, f.others...)
			most = max(most, f.running())
			up := 0
			for _, c := range f.others {
				_, on := f.members(c.Ref())
				up += on
			}
			return up == len(f.others)
		})
		if most < 30 || took > 45*time.Minute {
			t.Errorf("60 groups are up after %s, at most %d steps at once; want two clones of 20m, one after the other, and 30 steps", took, most)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for kind, n := range l.failing {
			if n != 0 {
				t.Errorf("%d %s count as failing after all have ended; want none", n, kind)
			}
		}
	})
}

func TestAGroupThatHasNothingToDoWaitsForNoSlot(t *testing.T) {
	m, cfg := newModel(time.Hour), day
	cfg.Slots = 2
	bubble(t, m, cfg, func(t *testing.T, l hooks) {
		l.Sync(call("large", 10))
		time.Sleep(time.Minute)
		l.Sync(call("first", 1)) // it has the extra slot
		time.Sleep(time.Second)
		waits := func() (is bool) {
			for _, r := range l.Groups() {
				is = is || r.Name == "web" && r.WaitsForSlot
			}
			return is
		}
		web := call("web", 1)
		l.Sync(web)
		time.Sleep(time.Second)
		if !waits() {
			t.Fatal("the group waits for no slot; want that it does")
		}
		paused := *web.Group
		paused.Generation, paused.Spec.Paused = 2, true
		web.Group = &paused
		syncing(l, 10*time.Second, web)
		if waits() || l.Slots().Waiting > 1 {
			t.Errorf("a paused group waits for a slot, of %d; want that it doesn't", l.Slots().Waiting)
		}
	})
}

// Metacontroller plans no call for a group that asks for one after 0 s.
func TestAGroupThatQueuesIsCalledAgainAfterAMoment(t *testing.T) {
	l := hooks{New(Config{Slots: 2, Lease: time.Minute, Resync: time.Minute}, newModel(time.Second))}
	now, g := time.Now(), newGroup(call("web", 1))
	g.lease.renewed = now
	g.turn.waits = []limiter.Work{{Kind: limiter.Clones}}
	l.groups[g.ref.UID], l.waiting = g, append(l.waiting, g.ref.UID)
	for _, counted := range []time.Time{{}, now} { // when the groups are counted now, and when all were at rest at the last count
		l.calls.counted = counted
		r := plan.Result{InProgress: true, Resync: time.Minute}
		if l.callAgain(g, &r, true, false, now); r.Resync < busySoonest {
			t.Errorf("counted at %s, the next call comes after %s; want at least %s", counted, r.Resync, busySoonest)
		}
		l.calls.lively.groups = 0
	}
}
