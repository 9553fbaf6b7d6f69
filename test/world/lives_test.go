package world

import (
	"cmp"
	"flag"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/thin"
)

var (
	worldFor   = flag.Duration("world.for", 0, "run lives for this long instead, as many as that allows")
	worldLives = flag.Uint64("world.lives", 0, "how many lives to run; 0: 400, or 40 in a thin run")
	worldSeed  = flag.Uint64("world.seed", 1, "the seed of the first life; a failure names its own")
	worldKeep  = flag.String("world.keep", "", "the events of the script to run, such as 3,9,12, or none; all by default")
)

// failuresMost is how many lives can fail before the others are skipped.
const failuresMost = 5

// TestLivesConvergeAndKeepEveryInvariant runs lives by scripts that seeds give. The invariants are checked after each event. In the
// end all disturbances stop, and there must be exactly the members of the spec, or nothing of a group that was deleted.
//
//	go test ./test/world -run TestLivesConvergeAndKeepEveryInvariant -v -timeout 2h -world.for 1h
//
// A failure is shrunk and printed with the flags that repeat it exactly.
func TestLivesConvergeAndKeepEveryInvariant(t *testing.T) {
	runLives(t, settingOf, livesToRun(), *worldFor)
}

// TestALastingTroubleCostsOneMember runs lives with a lasting trouble: see trouble_test.go. A life takes as long as thirty others.
func TestALastingTroubleCostsOneMember(t *testing.T) {
	runLives(t, troubledSettingOf, max(1, livesToRun()/40), *worldFor/10)
}

func livesToRun() uint64 { return cmp.Or(*worldLives, thin.Of[uint64](400, 10)) }

func runLives(t *testing.T, settingOf func(seed uint64) setting, lives uint64, lasts time.Duration) {
	began := time.Now()
	var ran, steps, virtual, failed atomic.Int64
	var mu sync.Mutex
	violations := map[string]int{}
	next := atomic.Uint64{}
	next.Store(*worldSeed - 1)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failed.Load() < failuresMost {
				seed := next.Add(1)
				if lasts > 0 && time.Since(began) > lasts || lasts == 0 && seed >= *worldSeed+lives {
					return
				}
				set := settingOf(seed)
				events, err := kept(script(set), *worldKeep)
				if err != nil {
					t.Error(err)
					return
				}
				o := run(t, set, events, false)
				ran.Add(1)
				steps.Add(int64(o.steps))
				virtual.Add(int64(o.virtual))
				if o.wrong != "" {
					failed.Add(1)
					mu.Lock()
					violations[invariantOf(o.wrong)]++
					mu.Unlock()
					t.Error(report(t, set, events, o.wrong))
				}
			}
		})
	}
	workers.Wait()
	took := time.Since(began)
	n := float64(max(1, ran.Load()))
	t.Logf("%d lives in %s, %.0f a second; %.1f steps and %s of virtual time a life; %d violations", ran.Load(), took.Round(time.Millisecond),
		n/took.Seconds(), float64(steps.Load())/n, (time.Duration(virtual.Load()) / time.Duration(n)).Round(time.Second), failed.Load())
	for _, name := range slices.Sorted(maps.Keys(violations)) {
		t.Logf("%s: %d", name, violations[name])
	}
}
