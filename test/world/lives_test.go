package world

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	worldFor   = flag.Duration("world.for", 0, "lead lives for this long instead, however many that are")
	worldLives = flag.Uint64("world.lives", 400/thinning, "how many lives are led")
	worldSeed  = flag.Uint64("world.seed", 1, "the seed of the first life; a failure names its own")
	worldKeep  = flag.String("world.keep", "", "the events of the script to carry out, such as 3,9,12, or none; all by default")
)

// failuresMost is how many lives may fail before the others are not led any more.
const failuresMost = 5

// TestLivesComeToWhatIsWanted leads lives by scripts that seeds give. What must always hold is looked at after each event;
// in the end no more harm is done, and there must be exactly the wanted members, or nothing of a group that was deleted.
//
//	go test ./test/world -run TestLivesComeToWhatIsWanted -v -timeout 2h -world.for 1h
//
// A failure is shrunk, and tells how to see it again: it is the same each time.
func TestLivesComeToWhatIsWanted(t *testing.T) {
	began := time.Now()
	var led, steps, virtual, failed atomic.Int64
	var mu sync.Mutex
	laws := map[string]int{}
	next := atomic.Uint64{}
	next.Store(*worldSeed - 1)
	var crew sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		crew.Go(func() {
			for failed.Load() < failuresMost {
				seed := next.Add(1)
				if *worldFor > 0 && time.Since(began) > *worldFor || *worldFor == 0 && seed >= *worldSeed+*worldLives {
					return
				}
				set := settingOf(seed)
				events, err := kept(script(set), *worldKeep)
				if err != nil {
					t.Error(err)
					return
				}
				o := lead(t, set, events, false)
				led.Add(1)
				steps.Add(int64(o.steps))
				virtual.Add(int64(o.virtual))
				if o.wrong != "" {
					failed.Add(1)
					mu.Lock()
					laws[law(o.wrong)]++
					mu.Unlock()
					t.Error(report(t, set, events, o.wrong))
				}
			}
		})
	}
	crew.Wait()
	took := time.Since(began)
	n := float64(max(1, led.Load()))
	t.Logf("%d lives in %s, %.0f a second; %.1f steps and %s of virtual time a life; %d violations", led.Load(), took.Round(time.Millisecond),
		n/took.Seconds(), float64(steps.Load())/n, (time.Duration(virtual.Load()) / time.Duration(n)).Round(time.Second), failed.Load())
	for _, name := range slices.Sorted(maps.Keys(laws)) {
		t.Logf("%s: %d", name, laws[name])
	}
}
