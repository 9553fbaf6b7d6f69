package loop

import (
	"cmp"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/limiter"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// limitOfThose returns the limit whose Of is the given text.
func limitOfThose(l hooks, of string) plan.Limit {
	for _, n := range l.Slots().Limits {
		if n.Of == of {
			return n
		}
	}
	return plan.Limit{}
}

// The template is on one host, which can copy more clones at once than all three targets can take.
func TestATargetThatIsNarrowerThanTheSourceBindsOnlyItsClones(t *testing.T) {
	thin.NotShort(t)
	bothQueues(t, func(t *testing.T, unseen bool) {
		m := newModel(40 * time.Second)
		m.datastore, m.limits = "default", map[string]*limit{"slow": {room: 2, unseen: unseen}, "fast": {room: 24, unseen: unseen}, "default": {room: 24, unseen: unseen}}
		bubble(t, m, day, func(t *testing.T, l hooks) {
			calls := map[string]plan.Call{}
			for _, datastore := range []string{"", "fast", "slow"} {
				c := call("to-"+cmp.Or(datastore, "default"), 100)
				c.Group.Spec.Placement.Datastore = datastore
				m.set(c.Ref(), func(s *plan.VCenterState) { s.Template.Host = "host-1" })
				l.Sync(c)
				calls[datastore] = c
			}
			time.Sleep(12*time.Minute + 10*time.Second) // no clone ends just now
			for _, datastore := range []string{"", "fast"} {
				c := calls[datastore]
				_, on := m.members(c.Ref())
				t.Logf("%d of %s are on", on, c.Group.Name)
				if on < 60 { // 40, if the source is blamed
					t.Errorf("only %d of %s are on", on, c.Group.Name)
				}
			}
			time.Sleep(13 * time.Minute) // by then the others are up
			slow := limitOfThose(l, "clones to DC0/slow")
			t.Logf("the slow target: %+v", slow)
			if slow.Running >= limiter.Begin || slow.Now == slow.Most {
				t.Errorf("the slow target: %+v", slow)
			}
			if g := l.Groups()[2]; g.Name != "to-slow" || len(g.WaitsFor) == 0 || g.WaitsFor[0].Running < g.WaitsFor[0].Now {
				t.Errorf("%s waits for %+v", g.Name, g.WaitsFor)
			}
		})
	})
}
