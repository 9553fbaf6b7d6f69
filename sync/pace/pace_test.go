package pace

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestAWindowGrowsToTwentyWhileActionsStartAtOnce(t *testing.T) {
	for name, tc := range map[string]struct{ room, atFirst, afterOne int }{
		"there is room for all": {1000, 20, 40},
		"there is room for six": {6, 14, 20},
	} {
		t.Run(name, func(t *testing.T) {
			f := &far{now: noon, room: always(tc.room), takes: func(time.Time) time.Duration { return 40 * time.Second }, users: []*user{rising(256)}}
			f.run(noon.Add(time.Second))
			if f.most != tc.atFirst {
				t.Errorf("%d begin at first, want %d", f.most, tc.atFirst)
			}
			f.run(noon.Add(41 * time.Second))
			if f.most != tc.afterOne {
				t.Errorf("%d are under way after the first have ended, want %d", f.most, tc.afterOne)
			}
		})
	}
}

// A window that trouble has made smaller grows by full windows only.
func TestAfterTroubleAWindowDoesNotGrowForStarts(t *testing.T) {
	u := rising(64)
	var all []*Running
	for range Begin {
		all = append(all, u.pace.Begin(fromOne(0), noon))
	}
	u.pace.End(all[0], noon.Add(time.Minute), Outcome{Overload: "too much"})
	was := numberOf(u, "host-1").Size
	for _, r := range all[1:] {
		u.pace.Started(r, 0)
		u.pace.End(r, noon.Add(time.Minute), Outcome{Failed: true})
	}
	for u.pace.May(fromOne(0), false) {
		u.pace.Started(u.pace.Begin(fromOne(0), noon.Add(2*time.Minute)), 0)
	}
	if n := numberOf(u, "host-1").Size; n != was {
		t.Errorf("it was %d and is %d", was, n)
	}
}

func begun(p *Pace, w Work, n int, now time.Time) (all []*Running) {
	for range n {
		all = append(all, p.Begin(w, now))
	}
	return all
}

func TestAnOverloadHalvesTheNumberOnceInTheTimeOfAMedianAction(t *testing.T) {
	p, w := New(64, 16), Work{Kind: Power, Like: "on"}
	now := noon
	for range 3 {
		for _, r := range begun(p, w, 4, now) {
			p.End(r, now.Add(10*time.Second), Outcome{Ran: 10 * time.Second})
		}
		now = now.Add(10 * time.Second)
	}
	first, refused := begun(p, w, 15, now), Outcome{Failed: true, Overload: "TooManyConcurrentNativeClones"}
	shrunk := p.End(first[0], now.Add(time.Second), refused)
	if len(shrunk) != 1 || shrunk[0].Size != 7 || shrunk[0].Why != "vCenter reported TooManyConcurrentNativeClones at 2026-11-22 12:00 UTC" {
		t.Fatalf("%+v", shrunk)
	}
	if p.End(first[1], now.Add(2*time.Second), refused) != nil { // it began when there were more
		t.Error("it shrank for an action from before")
	}
	second := begun(p, w, 7, now.Add(3*time.Second))
	if p.End(second[0], now.Add(4*time.Second), refused) != nil {
		t.Error("it shrank twice within ten seconds")
	}
	if shrunk := p.End(second[1], now.Add(12*time.Second), refused); len(shrunk) != 1 {
		t.Error("it never shrinks again")
	}
}

func TestThreeSlowActionsInARowAreTroubleAndTwoAreNot(t *testing.T) {
	p, w := New(64, 0), Work{Kind: Others, Like: "reconfigure"}
	one := func(took time.Duration) []Number {
		r := p.Begin(w, noon)
		return p.End(r, noon, Outcome{Ran: took})
	}
	for range 10 {
		one(10 * time.Second)
	}
	for _, seconds := range []time.Duration{25, 25, 12, 25, 25, 12} {
		if one(seconds*time.Second) != nil {
			t.Fatal("it shrank for two")
		}
	}
	one(25 * time.Second)
	one(25 * time.Second)
	if shrunk := one(25 * time.Second); len(shrunk) != 1 || !strings.HasPrefix(shrunk[0].Why, "tasks took 25 s instead of 10 s at") {
		t.Errorf("%+v", shrunk)
	}
}

func TestOnlyANumberThatIsUsedUpGrows(t *testing.T) {
	p, w := New(64, 0), Work{Kind: Power}
	for range 100 {
		p.End(p.Begin(w, noon), noon.Add(time.Second), Outcome{Ran: time.Second})
	}
	if n := p.Numbers()[1]; n.Size != Begin {
		t.Errorf("%+v", n)
	}
	for _, r := range begun(p, w, Begin, noon.Add(time.Second)) {
		p.End(r, noon.Add(2*time.Second), Outcome{Ran: time.Second})
	}
	if n := p.Numbers()[1]; n.Size != 2*Begin || n.Why != "it grows, because vCenter starts tasks at once" {
		t.Errorf("%+v", n)
	}
}

func TestOneKindDoesNotWaitForAnotherNorOneSourceForAnother(t *testing.T) {
	p := New(64, 0)
	begun(p, Work{Kind: Clones, Source: "host-1"}, Begin, noon)
	if p.May(Work{Kind: Clones, Source: "host-1"}, false) || !p.May(Work{Kind: Clones, Source: "host-1"}, true) || !p.May(Work{Kind: Power}, false) {
		t.Errorf("%+v", p.Numbers())
	}
	q := New(64, 16)
	begun(q, Work{Kind: Clones, Source: "host-1"}, 8, noon)
	begun(q, Work{Kind: Clones, Source: "host-1", Light: true}, 4, noon)
	q.window(key{kind: Clones, source: "host-1"}).size = 20
	if q.May(Work{Kind: Clones, Source: "host-1", Light: true}, false) || !q.May(Work{Kind: Clones, Source: "host-2"}, false) {
		t.Errorf("%+v", q.Numbers())
	}
}

func TestTheMaximumBoundsAllKindsTogether(t *testing.T) {
	p := New(10, 0)
	begun(p, Work{Kind: Clones}, 8, noon)
	begun(p, Work{Kind: Power}, 2, noon)
	if p.May(Work{Kind: Others}, false) || !p.May(Work{Kind: Others}, true) {
		t.Error("of 10, 10 are used")
	}
	p.Reserve(Work{Kind: Others})
	if p.May(Work{Kind: Others}, true) {
		t.Error("of 10 and one more, all are used")
	}
	p.Unreserve(Work{Kind: Others})
	if p.Used() != 10 {
		t.Error(p.Used())
	}
}

func TestClonesLeaveASmallShareToOtherKinds(t *testing.T) {
	for most, clones := range map[int]int{1: 1, 8: 8, 15: 15, 16: 15, 32: 30, 640: 600} {
		p := New(most, most)
		n := 0
		for ; p.May(Work{Kind: Clones, Source: "host-1"}, false); n++ {
			p.Begin(Work{Kind: Clones, Source: "host-1"}, noon)
		}
		if n != clones || p.May(Work{Kind: Power}, false) != (clones < most) {
			t.Errorf("of %d, clones may take %d, want %d", most, n, clones)
		}
	}
}

func TestAnActionThatStandsStillTakesNoRoomAndSaysSoOnlyIfItIsForLoad(t *testing.T) {
	p, w := New(8, 0), Work{Kind: Clones, Source: "host-1"}
	all := begun(p, w, 8, noon)
	later := noon.Add(10 * time.Minute)
	if p.Stand(all[0], later, "") != nil || !p.May(w, false) {
		t.Error("a question says nothing about the load")
	}
	if shrunk := p.Stand(all[1], later, "a task made no progress"); len(shrunk) != 1 || shrunk[0].Source != "host-1" || shrunk[0].Size != 4 || p.May(w, false) {
		t.Errorf("%+v", p.Numbers())
	}
	p.GoOn(all[0])
	if p.Used() != 7 {
		t.Error(p.Used())
	}
	later = later.Add(3 * time.Hour)
	for _, r := range all {
		p.End(r, later, Outcome{Ran: time.Hour})
	}
	if p.Used() != 0 || numberOf(&user{pace: p}, "host-1").Used != 0 {
		t.Errorf("%d, %+v", p.Used(), p.Numbers())
	}
}

func TestCallsWithoutAnswerDelayWhatBeginsAndShrinkNothing(t *testing.T) {
	p, w := New(8, 0), Work{Kind: Power}
	now := noon
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if p.End(p.Begin(w, now), now, Outcome{Failed: true, Unanswered: true}) != nil || p.Rest(now) != want*time.Second {
			t.Errorf("nothing begins for %s, want %d s", p.Rest(now), want)
		}
		now = now.Add(p.Rest(now))
	}
	p.End(p.Begin(w, now), now, Outcome{})
	p.End(p.Begin(w, now), now, Outcome{Failed: true, Unanswered: true})
	if p.Rest(now) != time.Second {
		t.Error(p.Rest(now))
	}
}

func TestWhatWasFoundAnHourAgoIsForgotten(t *testing.T) {
	p := New(64, 0)
	for i := range 100 {
		for _, r := range begun(p, Work{Kind: Clones, Target: fmt.Sprint("ds-", i), Like: fmt.Sprint(i)}, Begin, noon) {
			p.End(r, noon.Add(time.Minute), Outcome{Ran: time.Minute})
		}
	}
	p.Begin(Work{Kind: Power}, noon.Add(2*time.Hour))
	if n := p.Numbers(); len(n) != 3 || n[0].Size != Begin || len(p.likes) != 0 {
		t.Errorf("%+v, %d", n, len(p.likes))
	}
}
