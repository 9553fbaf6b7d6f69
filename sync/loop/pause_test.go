package loop

import (
	"testing"
	"time"
)

// standStill makes the loop believe that its process stood still for so long.
func (l *Loop) standStill(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pulse.last = l.pulse.last.Add(-d)
}

func TestAfterAPauseNothingIsDoneBeforeACallThatCannotHaveWaited(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{Slots: 1}, func(t *testing.T, l *Loop) {
		c := call("web", 3)
		l.Renew(c)
		until(t, time.Minute, "one member", func() bool { all, _ := m.members(c.Ref()); return all == 1 })
		l.standStill(2 * time.Second) // shorter ones are none
		if !l.Leased(c.Group.UID) {
			t.Error("the lease ended without a pause")
		}
		l.standStill(4 * time.Second)
		if l.Leased(c.Group.UID) {
			t.Error("the lease outlived a pause")
		}
		if r := l.Renew(c); l.Leased(c.Group.UID) || r.Resync > 2*time.Second {
			t.Errorf("a call that may have waited permits acting (%v), or asks for the next one in %s", l.Leased(c.Group.UID), r.Resync)
		}
		begun := len(m.begun())
		time.Sleep(time.Minute)
		if now := len(m.begun()); now > begun+1 { // one was about to start
			t.Errorf("%v was begun without a call", m.begun()[begun:])
		}
		l.Renew(c)
		until(t, time.Minute, "3 members on", func() bool { _, on := m.members(c.Ref()); return on == 3 })
	})
}

func TestASettledGroupIsCalledForSoonAfterAPause(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l *Loop) {
		c := call("web", 1)
		l.Renew(c)
		until(t, time.Minute, "a member on", func() bool { _, on := m.members(c.Ref()); return on == 1 })
		time.Sleep(time.Second)
		if r := l.Renew(c); r.Resync != 30*time.Second {
			t.Fatalf("settled: %s", r.Resync)
		}
		l.standStill(time.Minute)
		if r := l.Renew(c); r.Resync > 2*time.Second {
			t.Errorf("nobody acts for it for %s", r.Resync)
		}
		time.Sleep(2 * time.Second)
		if r := l.Renew(c); r.Resync != 30*time.Second || !l.Leased(c.Group.UID) {
			t.Errorf("%s, lease %v", r.Resync, l.Leased(c.Group.UID))
		}
	})
}

func TestAPauseIsToldByEitherClockAndNoneByAClockThatIsSetBack(t *testing.T) {
	began := time.Now()
	woken := began.Round(0).Add(time.Hour) // the monotonic clock stood still, or is not known
	if elapsed(began, woken) != time.Hour || elapsed(began, began.Add(time.Minute)) != time.Minute {
		t.Error("a clock is not heeded")
	}
	if elapsed(began, began.Round(0).Add(-time.Hour)) > 0 {
		t.Error("a clock that is set back is a pause")
	}
}
