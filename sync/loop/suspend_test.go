package loop

import (
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// suspendFor makes the loop believe that its process was suspended for that long.
func (l *Loop) suspendFor(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspension.last = l.suspension.last.Add(-d)
}

func TestAfterAPauseNothingIsDoneBeforeACallThatCannotHaveWaited(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{Slots: 1}, func(t *testing.T, l hooks) {
		c := call("web", 3)
		l.Sync(c)
		until(t, time.Minute, "one member", func() bool { all, _ := m.members(c.Ref()); return all == 1 })
		l.suspendFor(2 * time.Second) // shorter ones don't count
		if !l.Leased(c.Group.UID, "web-0") {
			t.Error("the lease ended without a pause")
		}
		l.suspendFor(4 * time.Second)
		if l.Leased(c.Group.UID, "web-0") {
			t.Error("the lease outlived a pause")
		}
		if r := l.Sync(c); l.Leased(c.Group.UID, "web-0") || r.Resync > 2*time.Second {
			t.Errorf("a call that may have waited permits acting (%v), or asks for the next one in %s", l.Leased(c.Group.UID, "web-0"), r.Resync)
		}
		begun := len(m.begun())
		time.Sleep(time.Minute)
		if now := len(m.begun()); now > begun+1 { // one was about to start
			t.Errorf("%v was begun without a call", m.begun()[begun:])
		}
		m.bringUp(t, c)
	})
}

func TestASettledGroupAsksForACallSoonAfterAPause(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		l.calls.counted, l.calls.rest.groups = time.Now().Add(time.Hour), 2000 // which are called as seldom as can be
		c := call("web", 1)
		c.Group.Spec.Inventory = v1alpha1.InventoryNone
		m.bringUp(t, c)
		l.Sync(c)
		time.Sleep(livelyFor)
		if r := l.Sync(c); r.Resync != 30*time.Second {
			t.Fatalf("settled: %s", r.Resync)
		}
		l.suspendFor(time.Minute)
		if r := l.Sync(c); r.Resync > 2*time.Second {
			t.Errorf("the next call comes after %s, want 2 s at most: after a suspension no replica acts before it", r.Resync)
		}
		time.Sleep(2 * time.Second)
		if r := l.Sync(c); r.Resync != 30*time.Second || !l.Leased(c.Group.UID, "web-0") {
			t.Errorf("%s, lease %v", r.Resync, l.Leased(c.Group.UID, "web-0"))
		}
	})
}

// Found by the model in test/world, seed 6574895: this replica was suspended after it had confirmed that nothing of a deleted group was left.
// Another replica, which didn't know of the deletion, had just created the folder, and cloned into it after the group was gone.
func TestAGroupIsNotGoneForACallThatMayHaveWaited(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := deletion(call("web", 1))
		l.Sync(c)
		time.Sleep(500 * time.Millisecond) // it is being confirmed
		m.change(c.Ref(), func(s *plan.VCenterState) { s.Folder = "group-web" })
		time.Sleep(time.Minute)
		l.suspendFor(5 * time.Second)
		if l.Sync(c).Finalized {
			t.Error("the group is gone, and its folder is there")
		}
		time.Sleep(2 * time.Second)
		until(t, time.Minute, "the group is gone", func() bool { return l.Sync(c).Finalized })
		if m.count(plan.RemoveFolder) != 1 {
			t.Errorf("%q", m.begun())
		}
	})
}

func TestEitherClockShowsAPauseAndAClockSetBackShowsNone(t *testing.T) {
	began := time.Now()
	woken := began.Round(0).Add(time.Hour) // the monotonic clock stopped, or is not known
	if elapsed(began, woken) != time.Hour || elapsed(began, began.Add(time.Minute)) != time.Minute {
		t.Error("a clock is ignored")
	}
	if elapsed(began, began.Round(0).Add(-time.Hour)) > 0 {
		t.Error("a clock that is set back is a pause")
	}
}

// Found by the search in sync/planner: when the deletion comes, a Clone step is still looking up objects. It would begin to clone under the lease
// of the deletion's call, and end after another replica has finalized the group.
func TestAStepBegunBeforeTheDeletionStops(t *testing.T) {
	m := newModel(time.Minute)
	bubble(t, m, Config{Slots: 1}, func(t *testing.T, l hooks) {
		c := call("web", 1)
		l.Sync(c)
		synctest.Wait()
		if begun := m.begun(); len(begun) != 2 || !l.Leased(c.Group.UID, "web-0") {
			t.Fatalf("%v, can continue: %v", begun, l.Leased(c.Group.UID, "web-0"))
		}
		l.Sync(deletion(c))
		if l.Leased(c.Group.UID, "web-0") || !l.Leased(c.Group.UID, plan.FolderKey) {
			t.Error("the clone continues, or the deletion does not")
		}
		l.Sync(deletion(c))
		if l.Leased(c.Group.UID, "web-0") {
			t.Error("the clone continues at the deletion's second call")
		}
		until(t, 3*time.Minute, "the removal begins", func() bool { return len(m.begun()) > 2 })
		if !l.Leased(c.Group.UID, "web-0") {
			t.Errorf("what the deletion has begun does not continue: %v", m.begun())
		}
	})
}
