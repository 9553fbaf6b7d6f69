package loop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestStalledActionsTakeNoSlotAndOthersProceed(t *testing.T) {
	m := newModel(time.Second)
	m.took[plan.PowerOn] = 24 * time.Hour
	bubble(t, m, Config{Slots: 2}, func(t *testing.T, l hooks) {
		a, b, other := call("a", 3), call("b", 1), call("other", 4)
		asking := []plan.Call{a, b}
		l.Sync(a)
		until(t, time.Minute, "the slots are taken", func() bool { return strings.Count(strings.Join(m.begun(), "\n"), "PowerOn") == 2 })
		l.Sync(b)
		until(t, time.Minute, "and the spare one", func() bool { return strings.Count(strings.Join(m.begun(), "\n"), "PowerOn") == 3 })
		m.mu.Lock()
		m.took[plan.PowerOn] = time.Second
		m.mu.Unlock()
		l.Sync(other)
		time.Sleep(time.Minute)
		if all, _ := m.members(other.Ref()); all > 0 {
			t.Fatalf("%d clones although no slot is free", all)
		}
		for _, c := range asking {
			m.change(c.Ref(), func(s *plan.VCenterState) {
				s.Stalled = map[string]plan.Fault{}
				for _, vm := range s.VMs {
					s.Stalled[vm.Name] = plan.Fault{Reason: plan.ReasonQuestionPending, NeedsOperator: true, Message: "it asks"}
				}
			})
		}
		until(t, time.Minute, "the other group is up", func() bool {
			l.Sync(other)
			_, on := m.members(other.Ref())
			return on == 4
		})
		for _, g := range l.Groups() {
			for _, p := range g.Pending {
				if p.State == plan.Running && (p.Fault == nil || p.Fault.Reason != plan.ReasonQuestionPending) {
					t.Errorf("%+v", p)
				}
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.limiter.Used() != 0 {
			t.Errorf("%d actions take slots", l.limiter.Used())
		}
	})
}

func TestAStalledActionReturnsItsSlotWithoutALease(t *testing.T) {
	m := newModel(time.Second)
	m.took[plan.PowerOn] = 24 * time.Hour
	bubble(t, m, Config{Slots: 1, Lease: 30 * time.Second, Resync: 10 * time.Second}, func(t *testing.T, l hooks) {
		c := call("asking", 1)
		l.Sync(c)
		until(t, time.Minute, "it is powered on", func() bool { return len(m.begun()) == 3 })
		time.Sleep(time.Minute)
		m.change(c.Ref(), func(s *plan.VCenterState) {
			s.Stalled = map[string]plan.Fault{"asking-0": {Reason: plan.ReasonTaskStalled}}
		})
		until(t, time.Minute, "the slot is free", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.limiter.Used() == 0 })
		m.change(c.Ref(), func(s *plan.VCenterState) { s.Stalled = nil })
		until(t, time.Minute, "it takes it again", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.limiter.Used() == 1 })
	})
}

func TestConfirmingThatGroupsAreGoneTakesNoSlot(t *testing.T) {
	m := newModel(time.Second)
	m.took[plan.ConfirmGone] = time.Hour
	bubble(t, m, Config{Slots: 2, Lease: time.Hour, Resync: 10 * time.Second}, func(t *testing.T, l hooks) {
		for i := range 10 {
			l.Sync(deletion(call(fmt.Sprintf("g%d", i), 1)))
		}
		confirming := func() (n int) {
			for _, begun := range m.begun() {
				if strings.HasPrefix(begun, string(plan.ConfirmGone)) {
					n++
				}
			}
			return n
		}
		until(t, time.Minute, "all groups are being confirmed to be gone", func() bool { return confirming() == 10 })
		c := call("new", 1)
		until(t, time.Minute, "another group comes up beside it", func() bool {
			l.Sync(c)
			_, on := m.members(c.Ref())
			return on == 1
		})
		synctest.Wait() // the last step has ended
		free := func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.limiter.Used() == 0 }
		if !free() {
			t.Error("fresh reads of vCenter take slots, want none taken")
		}
		if time.Sleep(2 * time.Hour); !free() {
			t.Error("their ends give slots back that they did not take")
		}
	})
}
