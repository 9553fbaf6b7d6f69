package test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// campaignBreak is one break in the lives of one course.
type campaignBreak struct {
	of course
	strike
}

// campaignTally counts lives and breaks.
type campaignTally struct {
	mu     sync.Mutex
	lives  map[string]int           // by outcome
	breaks []campaignBreak          // all that there are
	missed map[campaignBreak]string // those that have not happened yet, and why not in the last life that had them; empty: in none
	bad    []string
}

func newTally() campaignTally {
	return campaignTally{lives: map[string]int{}, missed: map[campaignBreak]string{}}
}

// plan notes the breaks that are possible.
func (y *campaignTally) plan(all []job) {
	for _, j := range all {
		for _, s := range j.strikes {
			b := campaignBreak{j.course, s}
			y.breaks, y.missed[b] = append(y.breaks, b), ""
		}
	}
}

// note notes the outcome of a life.
func (y *campaignTally) note(w *whole, failed bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.lives["runs"]++
	for _, s := range w.strikes {
		b := campaignBreak{w.course, s}
		if why := w.whyNot(s); why == "" {
			y.lives["breaks"]++
			delete(y.missed, b)
		} else {
			y.missed[b] = why
		}
	}
	if failed {
		y.lives["violations"]++
	}
}

func (y *campaignTally) violated(text string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.bad = append(y.bad, text)
}

// notRun notes lives for which there was no time.
func (y *campaignTally) notRun(n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.lives["not run"] += n
}

// missing are the breaks that did not happen although a life had them, each in a life of its own.
func (y *campaignTally) missing() (jobs []job) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, b := range y.breaks {
		if y.missed[b] != "" {
			jobs = append(jobs, job{b.of, []strike{b.strike}})
		}
	}
	return jobs
}

// leastStall is how long a call is stalled at least if its caller gives it up before the stall is over. (The least limit of a call is 2 s.)
const leastStall = time.Second

// whyNot says why a break did not happen; empty: it did.
func (w *whole) whyNot(s strike) string {
	w.mu.Lock()
	at, struck := w.struck[s]
	calls := w.nth[s.method]
	w.mu.Unlock()
	if !struck {
		return fmt.Sprintf("only some lives call this method so often; this one did %d times", calls)
	}
	if s.kind == taskFails {
		return ""
	}
	switch e := at.wire.Log()[at.n-1]; {
	case e.Broken, s.kind == breakStalled && e.Took >= leastStall:
		return ""
	case s.kind == breakSessionGone:
		return "the call came when the session was gone already"
	}
	return "its caller, or the replica, was gone already"
}

// sums are the totals, on one line.
func (c *campaign) sums() string {
	y := &c.tally
	y.mu.Lock()
	defer y.mu.Unlock()
	took := time.Since(c.began)
	return fmt.Sprintf("%d lives in %s, %.1f a second; %d breaks happened, %d violations; %d breaks have not happened yet", y.lives["runs"], took.Round(time.Second),
		float64(y.lives["runs"])/took.Seconds(), y.lives["breaks"], y.lives["violations"], len(y.missed))
}

// summarize logs a summary of the campaign.
func (c *campaign) summarize(t *testing.T) {
	t.Log(c.sums())
	for _, text := range c.tally.bad {
		t.Logf("violation: %s", text)
	}
}

// neverAtMost is how many breaks of a thousand may never happen. Which calls a life makes varies a little: the highest number of a method
// is what one of two unbroken lives had. Each such call is broken in the same way under its lower numbers.
const neverAtMost = 2

// complete checks that every break was tried, and that nearly all happened.
func (c *campaign) complete(t testing.TB) {
	t.Helper()
	left := c.tally.lives["not run"]
	if left > 0 {
		report := t.Logf
		if c.whole {
			report = t.Errorf
		}
		report("the time (-campaign.for) was over with %d lives left to run", left)
	}
	tried, happened := 0, map[strike]bool{} // the latter without the number of the call
	for _, b := range c.tally.breaks {
		why, missed := c.tally.missed[b]
		if !missed {
			happened[b.any()] = true
		}
		if !missed || why != "" {
			tried++
		}
	}
	var never []string
	for _, j := range c.tally.missing() {
		s := j.strikes[0]
		why := c.tally.missed[campaignBreak{j.course, s}]
		if !happened[s.any()] {
			why += "; and no other call of it was broken so"
		}
		never = append(never, fmt.Sprintf("%s (%s)", j.name(), why))
	}
	t.Logf("%d of %d breaks were tried, and %d never happened:\n%s", tried, len(c.tally.breaks), len(never), strings.Join(never, "\n"))
	if most := neverAtMost * tried / 1000; len(never) > most && left == 0 {
		t.Errorf("%d of %d breaks never happened, want at most %d", len(never), tried, most)
	}
}

// any is the same break of any call of the method.
func (s strike) any() strike {
	s.nth = 0
	return s
}

// isChange reports whether a method changes something.
func isChange(method string) bool {
	return strings.HasSuffix(method, "_Task") || method == "CreateFolder" || method == "ShutdownGuest" || strings.HasPrefix(method, "POST ") && !strings.HasSuffix(method, "~action=find") ||
		method == "ReconfigureComputeResource_Task"
}

// story returns what happened in a life: the diary, and the calls.
func (w *whole) story() []string {
	w.mu.Lock()
	lines := slices.Clone(w.diary)
	w.mu.Unlock()
	for i, wire := range w.wires {
		for _, e := range wire.Log() {
			text := fmt.Sprintf("%9.3f s      replica %d calls %s, %d ms", e.Began.Sub(w.began).Seconds(), i, e.Call, e.Took.Milliseconds())
			if e.Break.Kind != vcsim.Pass {
				text += fmt.Sprintf(": %s (%t)", e.Break.Kind, e.Broken)
			}
			if !e.Done {
				text += ", under way"
			}
			lines = append(lines, text)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[:9], b[:9]) })
	return lines
}
