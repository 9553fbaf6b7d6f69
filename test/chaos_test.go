package test

import (
	"cmp"
	"flag"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	chaosSeeds    = flag.Int("chaos.seeds", chaosDefault, "how many lives the chaos test leads")
	chaosSeed     = flag.Uint64("chaos.seed", 10, "the first seed; a failure names its own")
	chaosKeep     = flag.String("chaos.keep", "", "the steps of the script to carry out, such as 3,9,12; all by default")
	chaosFor      = flag.Duration("chaos.for", 0, "lead lives for this long instead, however many that are")
	chaosParallel = flag.Int("chaos.parallel", runtime.GOMAXPROCS(0), "how many lives are led at once")
	chaosShrink   = flag.Duration("chaos.shrink", 0, "how long a failing script is shrunk (default 3m in a campaign, else not at all)")
)

// chaosDefault is how many lives a plain `go test` leads; more are a campaign. The first one has admins, and the second
// one, without them, a promise of availability.
const chaosDefault = 2

// TestChaos leads lives by scripts that a seed gives: users edit, delete and recreate; admins power, destroy, move,
// rename, snapshot, re-tag, and remove the folder; guests fall sick; the wire of a replica of the server breaks in every way;
// replicas are stopped, killed and started; stale parents come. What must never be is watched for all the while (see
// watch); when it is quiet again, there must be exactly the wanted members, each as the spec says, and after the delete
// nothing but unmanaged VMs, which were not touched (and what was retained).
//
//	go test ./test -run 'TestChaos$' -v -timeout 1h -chaos.for 50m -chaos.parallel 6
//
// A failing script is shrunk; what is left of it is printed as flags that carry it out again. Lives are not
// deterministic, for vCenter and the replicas take their own time: so try them a few times (-chaos.repeat).
func TestChaos(t *testing.T) {
	t.Parallel()
	campaign := *chaosFor > 0 || *chaosSeeds > chaosDefault
	shrinkFor := *chaosShrink
	if shrinkFor == 0 && campaign {
		shrinkFor = 3 * time.Minute
	}
	keep, err := parseKeep(*chaosKeep)
	if err != nil {
		t.Fatal(err)
	}
	planted, counts := plantedDefect(t), newCounts()
	crew{*chaosParallel, *chaosSeed, *chaosSeeds, *chaosFor, counts.sums}.lead(t, func(t *testing.T, seed uint64) { leadOne(t, seed, keep, planted, shrinkFor, counts) })
	t.Log(counts)
}

// leadOne leads the life of one seed, and shrinks its script if it fails.
func leadOne(t *testing.T, seed uint64, keep []int, planted *defect, shrinkFor time.Duration, counts *counts) {
	steps := kept(script(seed), keep)
	o := lead(t, seed, steps, planted, counts)
	if len(o.wrong) == 0 {
		return
	}
	counts.add("violation", cmp.Or(first(o.wrong[0]), "of no words"))
	t.Errorf("%s\nagain: go test ./test -race -run 'TestChaos$' -chaos.seed %d -chaos.seeds 1 -chaos.keep %s\nwhat happened:\n%s",
		strings.Join(o.wrong, "\n"), seed, numbers(steps), strings.Join(o.diary, "\n"))
	if *chaosRepeat > 0 {
		t.Logf("seed %d: it fails again %d times of %d", seed, repeats(t, seed, steps, planted, *chaosRepeat), *chaosRepeat)
	}
	if shrinkFor == 0 {
		return
	}
	least := shrink(steps, time.Now().Add(shrinkFor), func(some []step) bool {
		if again := lead(t, seed, some, planted, newCounts()); len(again.wrong) > 0 {
			o = again
			return true
		}
		return false
	})
	if len(least) == len(steps) {
		return
	}
	t.Errorf("shrunk from %d steps to %d: -chaos.seed %d -chaos.seeds 1 -chaos.keep %s\n%s\n%s\nwhat happened:\n%s", len(steps), len(least),
		seed, numbers(least), describe(least), strings.Join(o.wrong, "\n"), strings.Join(o.diary, "\n"))
}

// first is the first line of a text, or as much of it as serves as a name.
func first(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 100)]
}
