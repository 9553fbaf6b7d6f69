package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shrink finds the fewest events that still fail, by delta debugging: it leaves out halves, quarters and so on, and finally single
// events, until none can be left out. Events repeat exactly, so each candidate runs once.
func shrink(events []event, fails func([]event) bool) []event {
	for chunk := max(1, len(events)/2); ; {
		shrunk := false
		for at := 0; at < len(events); {
			if some := slices.Delete(slices.Clone(events), at, min(at+chunk, len(events))); fails(some) {
				events, shrunk = some, true
			} else {
				at += chunk
			}
		}
		switch {
		case len(events) == 0 || chunk == 1 && !shrunk:
			return events
		case chunk > 1:
			chunk /= 2
		}
	}
}

// leastOf returns the fewest events of a life that fail for the same reason: by the invariant that is violated.
func leastOf(t *testing.T, set setting, events []event, wrong string) []event {
	return shrink(events, func(some []event) bool { return invariantOf(run(t, set, some, false).wrong) == invariantOf(wrong) })
}

// invariantOf returns the number of the invariant that a violation names, or the violation's first words.
func invariantOf(wrong string) string {
	if number, _, found := strings.Cut(wrong, ": "); found && len(number) < 3 {
		return number
	}
	return wrong[:min(len(wrong), 12)]
}

// numbers returns the places of events in their script, in the format of -world.keep.
func numbers(events []event) string {
	list := make([]string, len(events))
	for i, e := range events {
		list[i] = strconv.Itoa(e.at)
	}
	return strings.Join(list, ",")
}

// kept returns the events at these places, or all events if no places are given.
func kept(events []event, numbers string) ([]event, error) {
	if numbers == "" {
		return events, nil
	}
	var some []event
	if numbers == "none" {
		return some, nil
	}
	for _, text := range strings.Split(numbers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= len(events) {
			return nil, fmt.Errorf("-world.keep: %q is not the place of one of the %d events", text, len(events))
		}
		some = append(some, events[n])
	}
	return some, nil
}

// report describes a failure: what failed, the fewest events that show it, and the flags that repeat it.
func report(t *testing.T, set setting, events []event, wrong string) string {
	least := leastOf(t, set, events, wrong)
	o := run(t, set, least, true)
	test := "TestLivesConvergeAndKeepEveryInvariant"
	if set.trouble.any() {
		test = "TestALastingTroubleCostsOneMember"
	}
	keep := numbers(least)
	if keep == "" {
		keep = "none"
	}
	return fmt.Sprintf("seed %d: %s\nshrunk from %d events to %d: %s\nagain: go test ./test/world -run %s -world.lives 1 -world.seed %d -world.keep %s\n%+v\n%s",
		set.seed, wrong, len(events), len(least), o.wrong, test, set.seed, keep, describe(&set), o.history)
}

func describe(s *setting) string {
	return fmt.Sprintf("%d replicas of the server with %d slots; up: %v, tools: %v, guests halt when asked: %v, peaceful: %v; %d VMs, shutdown %d s, quarantine %d s, held for %d s, unavailable %v, surge %v, resize %q, order %q",
		s.replicas, s.slots, s.up, s.tools, s.halts, s.peaceful, *s.spec.Replicas, *s.spec.Deletion.ShutdownTimeoutSeconds, s.spec.Deletion.QuarantineSeconds, s.spec.Deletion.HoldTimeoutSeconds,
		s.spec.Update.MaxUnavailable, s.spec.Update.MaxSurge, s.spec.Update.Resize, s.spec.ScaleIn.Order)
}
