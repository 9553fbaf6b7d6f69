package test

import (
	"cmp"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	chaosShrink = flag.Duration("chaos.shrink", 0, "how long to shrink a failing life of any kind (default 3m in a campaign, otherwise not at all)")
	chaosRepeat = flag.Int("chaos.repeat", 0, "how often to repeat a failing life of any kind, to see how often it fails again")
)

// outcome is the result of a life: the violations, and a diary of what happened.
type outcome struct{ wrong, diary []string }

// shrinkTime returns the time limit for shrinking a failing life.
func shrinkTime(campaign bool) time.Duration {
	if *chaosShrink == 0 && campaign {
		return 3 * time.Minute
	}
	return *chaosShrink
}

// again tries a failed life again: with all its steps (or breaks), and with fewer.
type again[T any] struct {
	live  func([]T) outcome
	flags func([]T) string // returns the flags that run these steps
	// repeat and shrink have the values of the flags -chaos.repeat and -chaos.shrink.
	repeat int
	shrink time.Duration
}

// report fails the test because a life failed. It returns one line: what was wrong, how often the life fails again, and the fewest steps with which it
// still fails.
func (a again[T]) report(t *testing.T, steps []T, o outcome) string {
	t.Helper()
	t.Errorf("%s\nagain: %s\nwhat happened:\n%s", strings.Join(o.wrong, "\n"), a.command(steps), strings.Join(o.diary, "\n"))
	line := fmt.Sprintf("%s: %s%s", cmp.Or(first(o.wrong[0]), "without a message"), a.flags(steps), a.repeats(steps))
	if a.shrink > 0 {
		least := shrink(steps, time.Now().Add(a.shrink), func(some []T) bool {
			tried := a.live(some)
			if len(tried.wrong) > 0 {
				o = tried
			}
			return len(tried.wrong) > 0
		})
		if len(least) < len(steps) {
			t.Errorf("shrunk from %d steps to %d: %s\n%s\nwhat happened:\n%s", len(steps), len(least), a.command(least), strings.Join(o.wrong, "\n"), strings.Join(o.diary, "\n"))
			line += fmt.Sprintf("; shrunk from %d steps to %d: %s%s", len(steps), len(least), a.flags(least), a.repeats(least))
		}
	}
	t.Log(line)
	return line
}

func (a again[T]) command(steps []T) string { return "go test ./test -race " + a.flags(steps) }

// repeats runs a life again, and returns a text that says how often it failed.
func (a again[T]) repeats(steps []T) string {
	if a.repeat == 0 {
		return ""
	}
	return fmt.Sprintf(" (fails again %d times of %d)", a.fails(steps, a.repeat), a.repeat)
}

// fails runs a life this many times, and returns how often it fails.
func (a again[T]) fails(steps []T, times int) (n int) {
	for range times {
		if len(a.live(steps).wrong) > 0 {
			n++
		}
	}
	return n
}

// first returns the first line of a text, cut to the length of a name.
func first(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 100)]
}

// againOf returns an again that repeats the random life of a seed.
func againOf(t *testing.T, seed uint64, planted *defect) again[step] {
	return again[step]{repeat: *chaosRepeat,
		live: func(some []step) outcome { return runLife(t, seed, some, planted, newCounts()) },
		flags: func(some []step) string {
			return fmt.Sprintf("-run 'TestChaos$' -chaos.seed %d -chaos.seeds 1 -chaos.keep %s", seed, numbers(some))
		}}
}
