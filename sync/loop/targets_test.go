package loop

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// numberOfThose is the number of such steps.
func numberOfThose(l *Loop, of string) plan.SlotNumber {
	for _, n := range l.Slots().Numbers {
		if n.Of == of {
			return n
		}
	}
	return plan.SlotNumber{}
}

// The template is on one host, which takes more than all three targets do.
func TestATargetThatIsNarrowerThanTheSourceBindsOnlyItsClones(t *testing.T) {
	for _, c := range []struct {
		name   string
		unseen bool
		most   int // clones to the slow target that may run at once
		why    string
	}{{"tasks are queued", false, 4, "vCenter queued"}, {"queued tasks say that they run", true, 6, "tasks took"}} {
		t.Run(c.name, func(t *testing.T) {
			unseen := c.unseen
			m := newModel(40 * time.Second)
			m.datastore, m.limits = "default", map[string]*limit{"slow": {room: 2, unseen: unseen}, "fast": {room: 24, unseen: unseen}, "default": {room: 24, unseen: unseen}}
			bubble(t, m, day, func(t *testing.T, l *Loop) {
				calls := map[string]plan.Call{}
				for _, datastore := range []string{"", "fast", "slow"} {
					c := call("to-"+cmp.Or(datastore, "default"), 100)
					c.Group.Spec.Placement.Datastore = datastore
					m.set(c.Ref(), func(s *plan.VCenterState) { s.Template.Host = "host-1" })
					l.Renew(c)
					calls[datastore] = c
				}
				time.Sleep(12*time.Minute + 10*time.Second) // no clone ends just now
				if source := numberOfThose(l, "clones from host-1"); source.Now < 10 {
					t.Errorf("the source of all: %+v", source)
				}
				for _, datastore := range []string{"", "fast"} {
					c := calls[datastore]
					_, on := m.members(c.Ref())
					t.Logf("%d of %s are on", on, c.Group.Name)
					if on < 60 { // 40, if the source is blamed
						t.Errorf("only %d of %s are on", on, c.Group.Name)
					}
				}
				time.Sleep(13 * time.Minute) // by then the others are up
				slow := numberOfThose(l, "clones to DC0/slow")
				t.Logf("the slow target: %+v", slow)
				if slow.Now > c.most || !strings.Contains(slow.Reason, c.why) {
					t.Errorf("the slow target: %+v", slow)
				}
				if g := l.Groups()[2]; g.Name != "to-slow" || len(g.WaitsFor) != 1 || g.WaitsFor[0] != slow {
					t.Errorf("%s waits for %+v", g.Name, g.WaitsFor)
				}
			})
		})
	}
}
