package test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// tries is how often a candidate runs: it counts as failing if it fails once, because lives are not deterministic.
const tries = 3

// shrink finds fewer steps (or breaks) that still fail, by delta debugging: it leaves out halves, quarters and so on, and finally
// single ones, as long as the rest fails, until no single one can be left out or the time is over. It returns steps that were seen to
// fail (if those that it got were).
func shrink[T any](list []T, until time.Time, fails func([]T) bool) []T {
	failsOnce := func(some []T) bool {
		for range tries {
			if time.Now().After(until) {
				return false
			}
			if fails(slices.Clone(some)) {
				return true
			}
		}
		return false
	}
	for chunk := max(1, len(list)/2); ; {
		shrunk := false
		for at := 0; at < len(list) && time.Now().Before(until); {
			some := slices.Delete(slices.Clone(list), at, min(at+chunk, len(list)))
			if failsOnce(some) {
				list, shrunk = some, true
			} else {
				at += chunk
			}
		}
		switch {
		case len(list) == 0 || time.Now().After(until) || chunk == 1 && !shrunk:
			return list
		case chunk > 1:
			chunk /= 2
		}
	}
}

func TestShrinkFindsTheStepsThatMatter(t *testing.T) {
	t.Parallel()
	all := script(31)
	for _, matter := range [][]int{nil, {0}, {24}, {3, 9, 12}, {3, 4, 5}, {0, 24}} {
		flaky := rand.New(rand.NewPCG(1, 1))
		runs := 0
		least := shrink(all, time.Now().Add(time.Hour), func(some []step) bool {
			runs++
			for _, n := range matter {
				if !slices.Contains(some, all[n]) {
					return false
				}
			}
			return flaky.IntN(50) > 0 // fails most of the time
		})
		if numbers(least) != numbers(kept(script(31), append([]int{}, matter...))) {
			t.Errorf("want %v, got %s", matter, numbers(least))
		}
		if runs > 200 {
			t.Errorf("%d runs", runs)
		}
	}
	if len(all) != mostSteps {
		t.Error("shrink changed its argument")
	}
}

func TestShrinkEndsInTimeAndReturnsStepsThatWereSeenToFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := script(31)
		if least := shrink(all, time.Now().Add(-time.Second), func([]step) bool { return true }); len(least) != mostSteps {
			t.Errorf("%s are left, but nothing was seen to fail", numbers(least))
		}
		last := []step(nil)
		until := time.Now().Add(50 * time.Millisecond)
		least := shrink(all, until, func(some []step) bool {
			time.Sleep(10 * time.Millisecond)
			if len(some) > 2 {
				last = some
			}
			return len(some) > 2
		})
		if len(least) != mostSteps && !slices.Equal(least, last) {
			t.Errorf("%s are left; %s failed last", numbers(least), numbers(last))
		}
		if over := time.Since(until); over > 10*time.Millisecond {
			t.Errorf("it ended %s late", over)
		}
	})
}
