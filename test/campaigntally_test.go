package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// campaignTally counts lives and breaks.
type campaignTally struct {
	mu    sync.Mutex
	lives map[string]int // by outcome
	plan  map[string]int // by method and kind: how many breaks there are
	met   map[string]int // and how many of them happened
	bad   []string
}

func pair(s strike) string {
	if s.reason == "" {
		return s.method + "/" + s.kind
	}
	return s.method + "/" + s.kind + ":" + s.reason
}

// planned records the breaks that are possible.
func (y *campaignTally) planned(all []job) {
	for _, j := range all {
		for _, s := range j.strikes {
			y.plan[pair(s)]++
		}
	}
}

// note records the outcome of a life.
func (y *campaignTally) note(w *whole) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.lives["runs"]++
	for _, s := range w.strikes {
		if w.broke(s) {
			y.lives["breaks"]++
			y.met[pair(s)]++
		} else {
			y.lives["not reached"]++
		}
	}
	if w.t.Failed() {
		y.lives["violations"]++
		y.bad = append(y.bad, w.name())
	}
}

// broke reports whether a break happened.
func (w *whole) broke(s strike) bool {
	w.mu.Lock()
	at, struck := w.struck[s]
	w.mu.Unlock()
	return struck && (s.kind == taskFails || at.wire.Log()[at.n-1].Broken)
}

// sums are the totals, on one line.
func (c *campaign) sums() string {
	y := &c.tally
	y.mu.Lock()
	defer y.mu.Unlock()
	took := time.Since(c.began)
	return fmt.Sprintf("%d lives in %s, %.1f a second; %d breaks happened, %d violations; %d breaks were not reached", y.lives["runs"], took.Round(time.Second),
		float64(y.lives["runs"])/took.Seconds(), y.lives["breaks"], y.lives["violations"], y.lives["not reached"])
}

// summarize logs a summary of the campaign.
func (c *campaign) summarize(t *testing.T) {
	y := &c.tally
	t.Log(c.sums())
	if len(y.plan) > 0 {
		met, all := 0, 0
		var never []string
		for _, p := range slices.Sorted(maps.Keys(y.plan)) {
			all += y.plan[p]
			met += min(y.met[p], y.plan[p])
			if y.met[p] == 0 {
				never = append(never, p)
			}
		}
		t.Logf("%d of %d pairs of call and kind of break happened; of %d pairs of method and kind, %d didn't: %s", met, all, len(y.plan), len(never), strings.Join(never, ", "))
	}
	for _, name := range y.bad {
		t.Logf("violation: -campaign.only '%s'", name)
	}
}

// isChange reports whether a method changes something.
func isChange(method string) bool {
	return strings.HasSuffix(method, "_Task") || method == "CreateFolder" || method == "ShutdownGuest" || strings.HasPrefix(method, "POST ") && !strings.HasSuffix(method, "~action=find") ||
		method == "ReconfigureComputeResource_Task"
}

// How many calls a break may cost, beyond those of an unbroken life.
const (
	// A step that failed is retried, perhaps in another way: a member that can't be resized is cloned again, which is Clone, Prepare,
	// PowerOn, Mark, ShutdownGuest with its stamp, three calls to quarantine and one to destroy. (Which member goes first, and what is
	// stamped in one call, also varies a little from life to life.)
	changesAfter = 12
	// After a kill, everything under way may begin again: one action more than the slots, two calls each.
	changesAfterKill = 12 + 2*5
	// A lost session is rebuilt: login, stream, first read, the placement, the watch of tasks. A new process does the same. Each step
	// that is repeated is read before and after.
	readsAfter = 120
)

// usual is about how many changes and reads an unbroken life makes, where none ran to learn from.
var usual = map[course][2]int{
	{"plain", scaled}: {38, 240}, {"persistent", scaled}: {71, 393}, {"rich", scaled}: {76, 333}, {"standby", scaled}: {42, 259}, {ofLibrary, scaled}: {39, 285},
	{"plain", updated}: {56, 432}, {"persistent", updated}: {78, 590}, {"rich", updated}: {114, 652}, {"standby", updated}: {70, 464}, {ofLibrary, updated}: {57, 495},
}

// bound checks that the life made few calls more than an unbroken one. (Other tests check that a settled group makes none.)
func (w *whole) bound(learnt map[string]int) {
	w.t.Helper()
	if w.t.Failed() {
		return
	}
	changes, reads := 0, 0
	if len(learnt) == 0 {
		changes, reads = -usual[w.course][0], -usual[w.course][1]
	}
	for method, n := range w.calls() {
		if isChange(method) {
			changes += n - learnt[method]
		} else {
			reads += n - learnt[method]
		}
	}
	most := changesAfter
	for s := range w.struck {
		most += changesAfter
		if s.kind == breakKilledBefore || s.kind == breakKilledAfter {
			most += changesAfterKill - changesAfter
		}
	}
	if changes > most {
		w.wrongf("%d more calls that change something than in an unbroken life, want at most %d", changes, most)
	}
	if most = readsAfter * (1 + len(w.struck)); reads > most {
		w.wrongf("%d more calls that read than in an unbroken life, want at most %d", reads, most)
	}
	w.t.Logf("%s: %d changes and %d reads more than unbroken", w.name(), changes, reads)
}

// story returns what happened in a life: the diary, and the calls.
func (w *whole) story() string {
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
	return strings.Join(lines, "\n")
}
