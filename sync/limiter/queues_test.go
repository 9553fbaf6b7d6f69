package limiter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// bothQueues runs a test with a far side that reports queued tasks as queued, and with one that reports them as running: no source
// shows which of the two a vCenter with busy hosts does.
func bothQueues(t *testing.T, test func(t *testing.T, unseen bool)) {
	t.Run("tasks are queued", func(t *testing.T) { test(t, false) })
	t.Run("queued tasks say that they run", func(t *testing.T) { test(t, true) })
}

// fromOne are full clones from one source.
func fromOne(int) Work {
	return Work{Kind: Clones, Source: "host-1", Target: "fast", LatencyClass: "clone"}
}

func always(n int) func(Work) int { return func(Work) int { return n } }

// about returns durations around d, a fifth shorter to a fifth longer.
func about(d time.Duration, seed uint64) func(time.Time) time.Duration { return varied(d, .2, seed) }

// varied returns durations around d, shorter or longer by at most that part of d.
func varied(d time.Duration, part float64, seed uint64) func(time.Time) time.Duration {
	random := rand.New(rand.NewPCG(1, seed))
	return func(time.Time) time.Duration { return time.Duration(float64(d) * (1 + part*(2*random.Float64()-1))) }
}

func rising(most int) *user { return &user{limiter: New(most, 0), left: 1 << 40, work: fromOne} }

// limitOf is the limit of one source.
func limitOf(u *user, source string) Limit {
	for _, n := range u.limiter.Limits() {
		if n.Source == source {
			return n
		}
	}
	return Limit{}
}

// A host carries out four full clones at once, or sixteen linked ones.
func TestTwoThousandClonesTakeAtMostATenthLongerThanTheLimitsAllow(t *testing.T) {
	bothQueues(t, func(t *testing.T, unseen bool) {
		const clones = 2000 // from each host
		takes := []time.Duration{40 * time.Second, 5 * time.Second, 5 * time.Minute}
		for _, took := range takes[:thin.Of(len(takes), 3)] {
			for _, tc := range []struct {
				name       string
				hosts, can int
			}{{"full, one host", 1, 4}, {"linked, one host", 1, 16}, {"full, four hosts", 4, 4}, {"linked, four hosts", 4, 16}} {
				t.Run(fmt.Sprintf("%s, %s", tc.name, took), func(t *testing.T) {
					for seed := range uint64(1) {
						f, p := &far{now: noon, unseen: unseen, room: always(tc.can), takes: about(took, seed)}, New(256, 0)
						for i := range tc.hosts {
							host := fmt.Sprint("host-", i)
							f.users = append(f.users, &user{limiter: p, left: clones, work: func(int) Work {
								return Work{Kind: Clones, Source: host, LatencyClass: host}
							}})
						}
						f.run(time.Time{})
						bound := clones / time.Duration(tc.can) * took
						ratio := f.now.Sub(noon).Seconds() / bound.Seconds()
						t.Logf("seed %d: %.2f times the bound, at most %d at once", seed, ratio, f.most)
						if ratio > 1.1 {
							t.Errorf("seed %d: %.2f times the bound; %+v; want at most %.2f", seed, ratio, p.Limits(), 1.1)
						}
					}
				})
			}
		}
	})
}

// Chance decides how the actions of two users meet, so each case runs with many seeds: with none may the other user be far below its share.
func TestNoGroupIsLeftWithLittleWhereNoQueueIsShown(t *testing.T) {
	const took, perHour = 40 * time.Second, 90
	seeds := uint64(5)
	for _, tc := range []struct{ fixed, room int }{{4, 8}, {8, 16}, {2, 8}, {8, 24}, {16, 32}} {
		for _, part := range []float64{.02, .2} {
			t.Run(fmt.Sprintf("always %d, room for %d, varied by %.2f", tc.fixed, tc.room, part), func(t *testing.T) {
				sum, least := 0., 2.
				for seed := range seeds {
					f := &far{now: noon, unseen: true, room: always(tc.room), takes: varied(took, part, seed)}
					f.users = []*user{{fixed: tc.fixed, left: 1 << 40, work: fromOne}, rising(64)}
					f.run(noon.Add(35 * time.Minute))
					from := f.now
					f.run(from.Add(time.Hour))
					theirs := f.users[0].since(from)
					all, share := theirs+f.users[1].since(from), float64(theirs)/float64(tc.fixed*perHour)
					if sum, least = sum+share, min(least, share); all < tc.room*perHour*9/10 {
						t.Errorf("seed %d: both users together did %d of %d actions; want at least 90%%", seed, all, tc.room*perHour)
					}
				}
				mean := sum / float64(seeds)
				t.Logf("%.2f of a fair share in the mean, at least %.2f", mean, least)
				if mean < .7 || least < .5 {
					t.Errorf("%.2f of a fair share in the mean, at least %.2f", mean, least)
				}
			})
		}
	}
}

func TestAnotherUserKeepsItsShareAndGetsItBack(t *testing.T) {
	bothQueues(t, func(t *testing.T, unseen bool) {
		f := &far{now: noon, unseen: unseen, room: always(16), takes: about(40*time.Second, 2), users: []*user{rising(64)}}
		ours := f.users[0]
		f.run(noon.Add(time.Hour))
		alone := limitOf(ours, "host-1").Size
		other := &user{fixed: 8, left: 1 << 40, work: fromOne}
		f.users = append(f.users, other)
		f.run(f.now.Add(30 * time.Minute))
		from := f.now
		f.run(from.Add(time.Hour))
		beside := limitOf(ours, "host-1").Size
		can := 8 * int(time.Hour/(40*time.Second))
		t.Logf("%d at once alone, %d beside the other, which does %.2f of what it does alone", alone, beside, float64(other.since(from))/float64(can))
		if n := other.since(from); n < can*3/4 {
			t.Errorf("the other user did %d of %d; want at least %d", n, can, can*3/4)
		}
		if beside >= alone || beside < 4 {
			t.Errorf("%d at once alone, %d beside the other", alone, beside)
		}
		other.left = 0
		f.run(f.now.Add(time.Hour))
		from = f.now
		f.run(from.Add(time.Hour))
		if n := ours.since(from); n < 16*90*9/10 {
			t.Errorf("without the other user, the limiter did %d of %d actions; want at least 90%%", n, 16*90)
		}
	})
}

func TestAFarSideThatSlowsDownTenfoldIsNotMadeWorseAndTheLimitRecovers(t *testing.T) {
	bothQueues(t, func(t *testing.T, unseen bool) {
		slow := [2]time.Time{noon.Add(time.Hour), noon.Add(3 * time.Hour)}
		u := rising(64)
		usual := about(40*time.Second, 2)
		f := &far{now: noon, unseen: unseen, room: always(16), users: []*user{u}, takes: func(at time.Time) time.Duration {
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
		least := limitOf(u, "host-1")
		for f.now.Before(slow[1]) {
			f.run(f.now.Add(time.Minute))
			if n := limitOf(u, "host-1"); n.Size < least.Size {
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
			t.Errorf("the limiter let %d actions end in half an hour before, and %d after the slow time; want at least 90%%", rate, again)
		}
	})
}

// A small group's clone waits for the running clones: if twice as many run as the far side takes, the new clone waits as long as a clone
// takes.
func TestTheNumberDoesNotDriftAwayFromWhatTheFarSideTakes(t *testing.T) {
	bothQueues(t, func(t *testing.T, unseen bool) {
		for room, most := range map[int]int{2: 8, 4: 7, 8: 14, 16: 26} {
			f := &far{now: noon, unseen: unseen, room: always(room), takes: about(40*time.Second, 2), users: []*user{rising(64)}}
			f.run(noon.Add(2 * time.Hour))
			f.most = 0
			f.run(noon.Add(24 * time.Hour))
			done := float64(f.users[0].since(noon.Add(2*time.Hour))) / float64(room*22*90)
			t.Logf("room for %d: at most %d at once, %.2f of what is possible", room, f.most, done)
			if f.most > most || done < .9 {
				t.Errorf("room for %d: at most %d at once, %.2f of what is possible", room, f.most, done)
			}
		}
	})
}

func TestANewSpeedIsLearned(t *testing.T) {
	bothQueues(t, func(t *testing.T, unseen bool) {
		for _, times := range []time.Duration{2, 3} {
			usual := about(40*time.Second, 3)
			f := &far{now: noon, unseen: unseen, room: always(16), users: []*user{rising(64)}, takes: func(at time.Time) time.Duration {
				if at.Before(noon.Add(time.Hour)) {
					return usual(at)
				}
				return times * usual(at)
			}}
			for at, least := range map[time.Duration]float64{time.Hour: .35, 2 * time.Hour: .85} { // in the hour that begins then
				f := *f
				f.users = []*user{rising(64)}
				f.run(noon.Add(at))
				f.run(noon.Add(at + time.Hour))
				done := float64(f.users[0].since(noon.Add(at))) * float64(times) / (16 * 90)
				t.Logf("%d times slower: %.2f of what is possible in the hour after %s", times, done, at)
				if done < least {
					t.Errorf("%d times slower: %.2f of what is possible in the hour after %s; want at least %.2f", times, done, at, least)
				}
			}
		}
	})
}
