package test

import (
	"slices"
	"time"
)

// tries is how many times a candidate runs. Because lives are not deterministic, a candidate counts as failing if one of these runs fails.
const tries = 3

// shrink finds fewer steps (or breaks) that still fail, by delta debugging. It leaves out halves, quarters and so on, and finally single steps, if the
// rest still fails. It ends when no single step can be left out, or when the time is over. The steps that it returns have failed in a run, provided that
// the steps that it got had.
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
