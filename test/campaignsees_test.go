package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// confession is a testing.TB that takes errors down instead of failing.
type confession struct {
	testing.TB
	errors []string
}

func (c *confession) Errorf(format string, args ...any) {
	c.errors = append(c.errors, fmt.Sprintf(format, args...))
}

// TestTheCampaignDetectsPlantedFaults leads a life in which what the campaign looks for goes wrong, by hands that it does
// not know of.
func TestTheCampaignDetectsPlantedFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &confession{TB: t}
		w := newWhole(c, job{shape: "plain"})
		w.meddle = func(phase string) {
			switch phase {
			case "scale to 5": // as if a step of ours had taken a member that is needed
				w.must(w.PowerOff(w.own()[0].Path))
				w.watch.look()
				w.must(w.SetExtraConfig("/DC0/vm/web", "touched", "yes"))
				w.must(w.PowerOff("/DC0/vm/web-1"))
				w.login()
			}
		}
		w.last = "scale to 5"
		w.lead()
		w.plant("/DC0/vm", "late")
		w.left()
		w.close()
		all := strings.Join(c.errors, "\n")
		for _, want := range []string{"2 members are available, 3 were, and 3 must be", "touched=yes", "web-1 poweredOff", "late is left behind",
			"2 sessions at the end", "1 sessions are left after the stop"} {
			if !strings.Contains(all, want) {
				t.Errorf("not seen: %q in\n%s", want, all)
			}
		}
		c.errors = nil
		w.t = &confession{TB: t}
		w.bound(map[string]int{"CloneVM_Task": -100, "WaitForUpdatesEx": -400})
		if seen := w.t.(*confession).errors; len(seen) != 2 {
			t.Errorf("of calls that are too many it saw %q", seen)
		}
	})
}

// TestABreakIsFoundAgainByItsName: what a violation prints leads the same life again, and every fault is known.
func TestABreakIsFoundAgainByItsName(t *testing.T) {
	t.Parallel()
	for _, method := range slices.Concat(slices.Sorted(maps.Keys(taskFaults)), []string{"Login", "CreateFolder", "WaitForUpdatesEx", restLogin}) {
		for _, s := range kindsFor(method) {
			s.nth = 7
			j := job{"rich", []strike{s, {method: "Logout", nth: 1, kind: breakRefused}}}
			if again, err := parseJob(j.name()); err != nil || again.name() != j.name() || again.strikes[0] != s {
				t.Errorf("%s is read as %+v (%v)", j.name(), again, err)
			}
			if s.reason != "" && s.fault() == nil {
				t.Errorf("%s: no such fault", j.name())
			}
		}
	}
}
