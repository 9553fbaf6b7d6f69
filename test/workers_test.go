package test

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// workers runs many lives, several at the same time.
type workers struct {
	abreast int           // how many lives run at the same time
	first   uint64        // the first seed
	lives   int           // how many lives to run, if lasts is 0
	lasts   time.Duration // how long to start new lives, in real time; 0: lives decides
	more    func() string // returns additional text for the progress log
}

// run runs each life in a subtest of its own, and logs progress every half minute.
func (c workers) run(t *testing.T, life func(t *testing.T, seed uint64)) {
	var mu sync.Mutex
	begun, ended, bad, began := 0, 0, 0, time.Now()
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if c.lasts > 0 && time.Since(began) > c.lasts || c.lasts == 0 && begun == c.lives {
			return 0, false
		}
		begun++
		return c.first + uint64(begun) - 1, true
	}
	state := func() string {
		mu.Lock()
		defer mu.Unlock()
		took := time.Since(began)
		text := fmt.Sprintf("%d lives from seed %d on, %d violations, in %s: %.1f a second", ended, c.first, bad, took.Round(time.Second), float64(ended)/took.Seconds())
		if c.more != nil {
			text += "; " + c.more()
		}
		return text
	}
	stop := progress(t, state)
	var all sync.WaitGroup
	for range max(1, c.abreast) {
		all.Go(func() {
			for {
				seed, ok := take()
				if !ok {
					return
				}
				good := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { life(t, seed) })
				mu.Lock()
				if ended++; !good {
					bad++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	stop()
	t.Log(state())
}

// progress logs a line every half minute until stop.
func progress(t *testing.T, line func() string) (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(30 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.Log(line())
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-gone }
}
