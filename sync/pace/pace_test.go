package pace

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// fromOne are full clones from one source.
func fromOne(int) Work {
	return Work{Kind: Clones, Source: "host-1", Target: "fast", Like: "clone"}
}

func always(n int) func(Work) int { return func(Work) int { return n } }

// about takes so long, give or take a fifth.
func about(d time.Duration, seed uint64) func(time.Time) time.Duration {
	random := rand.New(rand.NewPCG(1, seed))
	return func(time.Time) time.Duration { return d*4/5 + time.Duration(random.Int64N(int64(d*2/5))) }
}

func rising(most int) *user { return &user{pace: New(most, 0), left: 1 << 40, work: fromOne} }

// numberOf is the number for one source.
func numberOf(u *user, source string) Number {
	for _, n := range u.pace.Numbers() {
		if n.Source == source {
			return n
		}
	}
	return Number{}
}

// A host carries out four full clones at once, or sixteen linked ones.
func TestTwoThousandClonesTakeAtMostATenthLongerThanTheLimitsAllow(t *testing.T) {
	const clones = 2000 // from each host
	takes := []time.Duration{40 * time.Second, 5 * time.Second, 5 * time.Minute}
	if raced {
		takes = takes[:1]
	}
	for _, took := range takes {
		for _, tc := range []struct {
			name       string
			hosts, can int
			light      bool
		}{{"full, one host", 1, 4, false}, {"linked, one host", 1, 16, true}, {"full, four hosts", 4, 4, false}, {"linked, four hosts", 4, 16, true}} {
			t.Run(fmt.Sprintf("%s, %s", tc.name, took), func(t *testing.T) {
				for seed := range uint64(6) {
					f, p := &far{now: noon, room: always(tc.can), takes: about(took, seed)}, New(256, 0)
					for i := range tc.hosts {
						host := fmt.Sprint("host-", i)
						f.users = append(f.users, &user{pace: p, left: clones, work: func(int) Work {
							return Work{Kind: Clones, Source: host, Light: tc.light, Like: host}
						}})
					}
					f.run(time.Time{})
					bound := clones / time.Duration(tc.can) * took
					ratio := f.now.Sub(noon).Seconds() / bound.Seconds()
					t.Logf("seed %d: %.2f times the bound, at most %d at once", seed, ratio, f.most)
					if ratio > 1.1 {
						t.Errorf("seed %d: %.2f times the bound; %+v", seed, ratio, p.Numbers())
					}
				}
			})
		}
	}
}

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

func TestReplicasFindTheirSharesWithoutKnowingOfEachOther(t *testing.T) {
	for _, replicas := range []int{2, 3} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			f := &far{now: noon, room: always(24), takes: about(40*time.Second, 2)}
			for i := range replicas { // one after the other
				f.users = append(f.users, rising(64))
				f.run(noon.Add(time.Duration(i+1) * 20 * time.Minute))
			}
			f.run(f.now.Add(2 * time.Hour)) // each finds its share
			from := f.now
			f.run(from.Add(2 * time.Hour))
			total, least, most := 0, 1<<40, 0
			for _, u := range f.users {
				n := u.since(from)
				total, least, most = total+n, min(least, n), max(most, n)
			}
			can := 24 * int(2*time.Hour/(40*time.Second))
			t.Logf("together %.2f of what is possible; shares from %.2f to %.2f", float64(total)/float64(can), float64(least)/float64(total), float64(most)/float64(total))
			if total < can*9/10 {
				t.Errorf("together they did %d of %d", total, can)
			}
			if most > 2*least {
				t.Errorf("the shares are from %d to %d", least, most)
			}
		})
	}
}

func TestAnotherUserKeepsItsShareAndGetsItBack(t *testing.T) {
	f := &far{now: noon, room: always(16), takes: about(40*time.Second, 2), users: []*user{rising(64)}}
	ours := f.users[0]
	f.run(noon.Add(time.Hour))
	alone := numberOf(ours, "host-1").Size
	other := &user{fixed: 8, left: 1 << 40, work: fromOne}
	f.users = append(f.users, other)
	f.run(f.now.Add(30 * time.Minute))
	from := f.now
	f.run(from.Add(time.Hour))
	beside := numberOf(ours, "host-1").Size
	can := 8 * int(time.Hour/(40*time.Second))
	t.Logf("%d at once alone, %d beside the other, which does %.2f of what it does alone", alone, beside, float64(other.since(from))/float64(can))
	if n := other.since(from); n < can*3/4 {
		t.Errorf("the other user did %d of %d", n, can)
	}
	if beside >= alone || beside < 4 {
		t.Errorf("%d at once alone, %d beside the other", alone, beside)
	}
	other.left = 0
	f.run(f.now.Add(time.Hour))
	if n := numberOf(ours, "host-1").Size; n < 16 {
		t.Errorf("the other user has gone, and it is still %d", n)
	}
}

func TestAFarSideThatSlowsDownTenfoldIsNotMadeWorseAndThePaceRecovers(t *testing.T) {
	slow := [2]time.Time{noon.Add(time.Hour), noon.Add(3 * time.Hour)}
	u := rising(64)
	usual := about(40*time.Second, 2)
	f := &far{now: noon, room: always(16), users: []*user{u}, takes: func(at time.Time) time.Duration {
		if at.Before(slow[0]) || at.After(slow[1]) {
			return usual(at)
		}
		return 10 * usual(at)
	}}
	f.run(noon.Add(30 * time.Minute))
	f.most = 0
	f.run(slow[0])
	before, rate := f.most, u.since(noon.Add(30*time.Minute))
	f.most = 0
	least := numberOf(u, "host-1")
	for f.now.Before(slow[1]) {
		f.run(f.now.Add(time.Minute))
		if n := numberOf(u, "host-1"); n.Size < least.Size {
			least = n
		}
	}
	if during := f.most; during > before || least.Size > before/2 || !strings.HasPrefix(least.Why, "tasks took ") {
		t.Errorf("up to %d at once before, up to %d while slow, and at least %+v", before, during, least)
	}
	t.Logf("up to %d at once before, up to %d while slow, at least %d: %s", before, f.most, least.Size, least.Why)
	f.run(slow[1].Add(30 * time.Minute))
	from := f.now
	f.run(from.Add(30 * time.Minute))
	t.Logf("in half an hour %d before, %d after", rate, u.since(from))
	if again := u.since(from); again < rate*9/10 {
		t.Errorf("it did %d in half an hour before, and %d after", rate, again)
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
