package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// recorder is a testing.TB that records errors instead of failing.
type recorder struct {
	testing.TB
	errors []string
}

func (c *recorder) Errorf(format string, args ...any) {
	c.errors = append(c.errors, fmt.Sprintf(format, args...))
}

// TestTheCampaignDetectsPlantedFaults runs a life in which the test itself causes what the campaign looks for.
func TestTheCampaignDetectsPlantedFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &recorder{TB: t}
		w := newWhole(c, job{course: plain})
		w.interfere = func(phase string) {
			switch phase {
			case "scale to 5": // as if the server had taken down a member that is needed
				w.must(w.PowerOff(w.own()[0].Path))
				w.watch.look()
				w.must(w.SetExtraConfig("/DC0/vm/web", "touched", "yes"))
				w.must(w.PowerOff("/DC0/vm/web-1"))
				w.login()
			}
		}
		w.last = "scale to 5"
		w.run()
		w.plant("/DC0/vm", "late")
		w.left()
		w.close()
		all := strings.Join(c.errors, "\n")
		for _, want := range []string{"2 members are available, down from 3; 3 must be", "touched=yes", "web-1 poweredOff", "late is left behind",
			"2 sessions at the end", "1 sessions are left after the stop"} {
			if !strings.Contains(all, want) {
				t.Errorf("not seen: %q in\n%s", want, all)
			}
		}
		c.errors = nil
		w.t = &recorder{TB: t}
		w.bound(map[string]int{"CloneVM_Task": -100, "WaitForUpdatesEx": -400})
		if seen := w.t.(*recorder).errors; len(seen) != 2 {
			t.Errorf("excess calls reported: %q", seen)
		}
	})
}

// A name that a violation prints runs the same life again, and every fault is known.
func TestTheNameOfABreakRepeatsIt(t *testing.T) {
	t.Parallel()
	for _, method := range slices.Concat(slices.Sorted(maps.Keys(taskFaults)), []string{"Login", "CreateFolder", "WaitForUpdatesEx", restLogin}) {
		for _, s := range kindsFor(method) {
			s.nth = 7
			j := job{course{"rich", updated}, []strike{s, {method: "Logout", nth: 1, kind: breakRefused}}}
			if again, err := parseJob(j.name()); err != nil || again.name() != j.name() || again.strikes[0] != s {
				t.Errorf("%s is read as %+v (%v)", j.name(), again, err)
			}
			if s.reason != "" && s.fault() == nil {
				t.Errorf("%s: no such fault", j.name())
			}
		}
	}
}

func TestEveryBreakIsInOneLifeAndNoLifeBreaksACallTwice(t *testing.T) {
	t.Parallel()
	var jobs []job
	for _, of := range []course{plain, {"rich", scaled}} {
		for nth := range 7 {
			for _, kind := range []string{breakRefused, breakReplyLost, breakStalled} {
				jobs = append(jobs, job{of, []strike{{method: "CloneVM_Task", nth: nth, kind: kind}}})
			}
		}
	}
	for n, lives := range map[int]int{1: 42, 2: 24, 5: 12, 7: 6, 20: 6} {
		seen := map[string]int{}
		packs := pack(jobs, n)
		for _, life := range packs {
			calls := map[int]bool{}
			for _, s := range life.strikes {
				if calls[s.nth] {
					t.Errorf("up to %d breaks in a life: %s breaks a call twice", n, life.name())
				}
				calls[s.nth] = true
				seen[job{life.course, []strike{s}}.name()]++
			}
			if len(life.strikes) > n {
				t.Errorf("%s has more than %d breaks", life.name(), n)
			}
		}
		for _, j := range jobs {
			if seen[j.name()] != 1 {
				t.Errorf("up to %d breaks in a life: %s is in %d lives", n, j.name(), seen[j.name()])
			}
		}
		if len(packs) > lives {
			t.Errorf("up to %d breaks in a life: %d lives, want at most %d", n, len(packs), lives)
		}
	}
}

func TestACampaignNamesWhatNeverHappenedAndFailsIfThatIsMuchOrNotAllWasRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		missed, notRun int
		whole          bool
		want           []string
	}{
		"few are missed":                      {missed: 2, whole: true},
		"many are missed":                     {missed: 3, whole: true, want: []string{"3 of 1000 breaks never happened, want at most 2"}},
		"the time is over":                    {notRun: 7},
		"the time is over, and all must run":  {notRun: 7, whole: true, want: []string{"the time (-campaign.for) was over with 7 lives left to run"}},
		"many are missed in some of the time": {missed: 3, notRun: 7},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			all := &campaign{whole: c.whole, tally: newTally()}
			var jobs []job
			for nth := range 1000 {
				jobs = append(jobs, job{plain, []strike{{method: "CloneVM_Task", nth: nth + 1, kind: taskFails}}})
			}
			all.tally.plan(jobs)
			all.tally.notRun(c.notRun)
			for n, j := range jobs {
				w := &whole{job: j, nth: map[string]int{}}
				if n >= c.missed {
					w.struck = map[strike]place{j.strikes[0]: {}}
				}
				all.tally.note(w, false)
			}
			if missing := all.tally.missing(); len(missing) != c.missed {
				t.Errorf("%d breaks are to be tried again, want %d", len(missing), c.missed)
			}
			all.complete(r)
			if !slices.Equal(r.errors, c.want) {
				t.Errorf("got %q, want %q", r.errors, c.want)
			}
		})
	}
}
