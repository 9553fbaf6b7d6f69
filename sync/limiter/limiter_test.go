package limiter

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func begun(l *Limiter, w Work, n int, now time.Time) (all []*Running) {
	for range n {
		all = append(all, l.Begin(w, now))
	}
	return all
}

// ofKind is the limit of a kind.
func ofKind(l *Limiter, k Kind) (of Limit) {
	for _, of = range l.Limits() {
		if of.Kind == k && of.Source == "" && of.Target == "" {
			break
		}
	}
	return of
}

func TestAnOverloadCutsTheLimitOnceForWhatBeganBefore(t *testing.T) {
	l, w, refused := New(64, 16), Work{Kind: Power, LatencyClass: "on"}, Outcome{Failed: true, Overload: "TooManyConcurrentNativeClones"}
	first := begun(l, w, 16, noon)
	cut, congestion := l.End(first[0], noon.Add(time.Second), refused)
	if cut == nil || cut.Size != 12 || congestion != Overload || cut.Why != "vCenter reported TooManyConcurrentNativeClones at 2026-11-22 12:00 UTC" {
		t.Fatalf("got the cut %+v and the congestion %s; want 12 and an overload, with its cause and time", cut, congestion)
	}
	if cut, _ := l.End(first[1], noon.Add(2*time.Second), refused); cut != nil {
		t.Error("the limit was cut again for an action that began before the first cut")
	}
	later := begun(l, w, 1, noon.Add(3*time.Second))
	if cut, _ := l.End(later[0], noon.Add(4*time.Second), refused); cut == nil {
		t.Error("the limit was not cut for an action that began after the first cut")
	}
}

func TestOneSlowActionIsNoCongestionAndTwoInARowAre(t *testing.T) {
	l, w := New(64, 0), Work{Kind: Others, LatencyClass: "reconfigure"}
	one := func(took time.Duration) *Limit {
		r := begun(l, w, 8, noon)
		cut, _ := l.End(r[0], noon, Outcome{Ran: took})
		for _, r := range r[1:] {
			l.End(r, noon, Outcome{Failed: true})
		}
		return cut
	}
	for _, seconds := range []time.Duration{10, 10, 25, 10, 10, 10, 10, 25} {
		if one(seconds*time.Second) != nil {
			t.Fatal("the limit was cut for a single slow action")
		}
	}
	if cut := one(25 * time.Second); cut == nil || cut.Size != 5 || !strings.HasPrefix(cut.Why, "tasks took 17 s instead of 10 s at") {
		t.Errorf("got the limit %+v; want 5, cut because tasks took 17 s instead of 10 s", cut)
	}
}

// A tenant can make its actions slow, and some of them fast. They cut no limit while others' are fast.
func TestOneTenantsSlowActionsCutNoLimitOfOthers(t *testing.T) {
	for _, c := range []struct {
		why          string
		other        time.Duration // that the other tenant's actions take
		class        string        // of these
		want, atMost int
	}{
		{"the other's are fast", 10 * time.Second, "reconfigure", Begin, Begin},
		{"the other's, of another class, are fast", 4 * time.Second, "move", Begin, Begin},
		{"the other's are slow, too", 100 * time.Second, "reconfigure", floor, 4},
		{"the other has none", 0, "reconfigure", floor, 4},
	} {
		l := New(64, 0)
		now := noon
		for range 5 {
			l.End(l.Begin(Work{Kind: Others, LatencyClass: c.class, Tenant: "team-a"}, now), now.Add(4*time.Second), Outcome{Ran: min(c.other, 10*time.Second)})
			now = now.Add(time.Minute)
		}
		for i := range 200 {
			took := 10 * time.Second
			if i%10 > 2 {
				took = 100 * time.Second
			}
			slow := l.Begin(Work{Kind: Others, LatencyClass: "reconfigure", Tenant: "team-b"}, now)
			if c.other > 0 {
				l.End(l.Begin(Work{Kind: Others, LatencyClass: c.class, Tenant: "team-a"}, now), now.Add(c.other), Outcome{Ran: c.other})
			}
			now = now.Add(101 * time.Second)
			l.End(slow, now, Outcome{Ran: took})
		}
		if n := ofKind(l, Others); n.Size < c.want || n.Size > c.atMost {
			t.Errorf("%s: the limit is %d (%s); want %d to %d", c.why, n.Size, n.Why, c.want, c.atMost)
		}
	}
}

func TestOnlyALimitThatIsUsedUpGrows(t *testing.T) {
	l, w := New(64, 0), Work{Kind: Power}
	for range 100 {
		l.End(l.Begin(w, noon), noon.Add(time.Second), Outcome{Ran: time.Second})
	}
	if n := ofKind(l, Power); n.Size != Begin || n.Why != "it is the initial limit" {
		t.Errorf("got the limit %+v; want the initial %d", n, Begin)
	}
	for _, r := range begun(l, w, Begin, noon.Add(time.Second)) {
		l.End(r, noon.Add(2*time.Second), Outcome{Ran: time.Second})
	}
	if n := ofKind(l, Power); n.Size != 2*Begin || n.Why != "it grows, because vCenter keeps up" {
		t.Errorf("got the limit %+v; want %d, because vCenter keeps up", n, 2*Begin)
	}
}

func TestOneKindDoesNotWaitForAnotherNorOneSourceForAnother(t *testing.T) {
	l := New(64, 0)
	begun(l, Work{Kind: Clones, Source: "host-1"}, Begin, noon)
	if l.Permits(Work{Kind: Clones, Source: "host-1"}, 0) || !l.Permits(Work{Kind: Clones, Source: "host-1"}, 1) || !l.Permits(Work{Kind: Power}, 0) {
		t.Errorf("got the limits %+v; want no clone from host-1 but one extra, and other kinds", l.Limits())
	}
	l = New(64, 0)
	cut, _ := l.End(begun(l, Work{Kind: Clones, Source: "host-1"}, 10, noon)[0], noon, Outcome{Failed: true, Unanswered: true})
	if cut == nil || cut.Source != "host-1" || cut.Size != 8 || l.Permits(Work{Kind: Clones, Source: "host-1"}, 0) || !l.Permits(Work{Kind: Clones, Source: "host-2"}, 0) {
		t.Errorf("%+v, %+v", cut, l.Limits())
	}
}

func TestASlowTargetDoesNotCutItsSource(t *testing.T) {
	l := New(64, 0)
	for i := range 9 {
		fast, slow := Work{Kind: Clones, Source: "host-1", Target: "fast"}, Work{Kind: Clones, Source: "host-1", Target: "slow"}
		now := noon.Add(time.Duration(i) * time.Minute)
		l.End(l.Begin(fast, now), now, Outcome{Ran: time.Minute})
		if cut, _ := l.End(l.Begin(slow, now), now, Outcome{Queued: time.Minute, Ran: time.Minute}); i > 0 && cut != nil && cut.Target != "slow" {
			t.Errorf("got the cut %+v; want none but of the target slow", cut)
		}
	}
}

func TestTheMaximumBoundsAllKindsTogether(t *testing.T) {
	l := New(10, 0)
	begun(l, Work{Kind: Clones}, 8, noon)
	begun(l, Work{Kind: Power}, 2, noon)
	if l.Permits(Work{Kind: Others}, 0) || !l.Permits(Work{Kind: Others}, 1) {
		t.Error("with 10 of 10 slots used, Permits is true, or false for one extra")
	}
	l.Reserve(Work{Kind: Others})
	if l.Permits(Work{Kind: Others}, 1) {
		t.Error("with 10 of 10 slots and the extra one used, Permits is true for one extra")
	}
	l.Unreserve(Work{Kind: Others})
	if l.Used() != 10 {
		t.Errorf("%d slots are used; want 10", l.Used())
	}
}

func TestASuspendedActionTakesNoRoomAndCutsALimitOnlyIfThatIsForLoad(t *testing.T) {
	l, w := New(8, 0), Work{Kind: Clones, Source: "host-1"}
	all := begun(l, w, 8, noon)
	later := noon.Add(10 * time.Minute)
	if l.Suspend(all[0], later, "") != nil || !l.Permits(w, 0) {
		t.Error("a question says nothing about the load")
	}
	if cut := l.Suspend(all[1], later, "a task made no progress"); cut == nil || cut.Source != "host-1" || cut.Size != 6 || l.Permits(w, 0) {
		t.Errorf("got the cut %+v of the limits %+v; want 6 for host-1, used up", cut, l.Limits())
	}
	l.Resume(all[0])
	if l.Used() != 7 {
		t.Errorf("%d slots are used; want 7", l.Used())
	}
	later = later.Add(3 * time.Hour)
	for _, r := range all {
		l.End(r, later, Outcome{Ran: time.Hour})
	}
	if l.Used() != 0 || ofKind(l, Clones).Used != 0 {
		t.Errorf("%d, %+v", l.Used(), l.Limits())
	}
}

func TestWhatWasFoundAnHourAgoIsForgotten(t *testing.T) {
	l := New(64, 0)
	for i := range 100 {
		for _, r := range begun(l, Work{Kind: Clones, Target: fmt.Sprint("ds-", i), LatencyClass: fmt.Sprint(i)}, Begin, noon) {
			l.End(r, noon.Add(time.Minute), Outcome{Ran: time.Minute})
		}
	}
	l.Begin(Work{Kind: Power}, noon.Add(2*time.Hour))
	if n := l.Limits(); len(n) != 3 || n[0].Size != Begin || len(l.latencies) != 0 {
		t.Errorf("%+v, %d", n, len(l.latencies))
	}
}
