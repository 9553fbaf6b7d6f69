package loop

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// powerOffs are the VMs whose power-offs have begun.
func powerOffs(m *model) (vms []string) {
	for _, step := range m.begun() {
		if vm, is := strings.CutPrefix(step, string(plan.PowerOff)+" web "); is {
			vms = append(vms, vm)
		}
	}
	return vms
}

// The task of a step may have ended before that is known: its slot waits for no read.
func TestTheSlotOfATaskThatShouldHaveEndedIsFree(t *testing.T) {
	m := newModel(0)
	m.took[plan.PowerOff], m.took[plan.Destroy] = 10*time.Second, time.Second
	cfg := day
	cfg.Slots = 4
	bubble(t, m, cfg, func(t *testing.T, l *Loop) {
		web := call("web", 20)
		l.Renew(web)
		until(t, time.Minute, "all members on", func() bool { return m.upCount([]plan.Call{web}) == 20 })
		web = deletion(web)
		web.Group.Spec.Deletion.ShutdownTimeoutSeconds = new(int32(0))
		l.Renew(web)
		until(t, time.Minute, "the slots taken", func() bool { return len(powerOffs(m)) == cfg.Slots })
		begin := powerOffs(m)
		over := func(vm string, is bool, want int) {
			t.Helper()
			l.Over(web.Group.UID, vm, is)
			l.Over(web.Group.UID, vm, is) // said twice
			time.Sleep(100 * time.Millisecond)
			if n := len(powerOffs(m)); n != want {
				t.Errorf("%d power-offs have begun, want %d", n, want)
			}
		}
		over(begin[0], true, 5)
		over(begin[1], true, 6)
		over(begin[1], false, 6) // it goes on, and so do the others: five take a slot
		over("web-99", true, 6)  // no step
		if n := l.Slots().Running; n != 5 {
			t.Errorf("%d steps take a slot, want 5", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		// The first four have ended. Each is destroyed before another one is powered off, the one whose slot was given away, too.
		log := m.begun()
		if n := slices.IndexFunc(log, func(step string) bool { return strings.HasPrefix(step, string(plan.Destroy)) }); n < 0 || len(powerOffs(m)) > 8 {
			t.Errorf("%d power-offs have begun: %v", len(powerOffs(m)), log)
		}
		until(t, 10*time.Minute, "all members gone", func() bool { all, _ := m.members(web.Ref()); return all == 0 })
		synctest.Wait() // the last step has ended
		if n := l.Slots().Running; n != 0 {
			t.Errorf("%d steps take a slot after the last one", n)
		}
	})
}
