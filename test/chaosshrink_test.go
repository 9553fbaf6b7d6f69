package test

import (
	"slices"
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
