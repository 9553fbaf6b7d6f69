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
	chaosSeeds    = flag.Int("chaos.seeds", chaosDefault, "how many lives the chaos test runs")
	chaosSeed     = flag.Uint64("chaos.seed", 10, "the first seed; a failure names its own")
	chaosKeep     = flag.String("chaos.keep", "", "the steps of the script to carry out, such as 3,9,12; all by default")
	chaosFor      = flag.Duration("chaos.for", 0, "run lives for this long instead, as many as that allows")
	chaosParallel = flag.Int("chaos.parallel", runtime.GOMAXPROCS(0), "how many lives run at once")
	chaosShrink   = flag.Duration("chaos.shrink", 0, "how long to shrink a failing script (default 3m in a campaign, otherwise not at all)")
)

// TestChaos runs lives by scripts that a seed gives: users edit, delete and recreate; operators power, destroy, move, rename,
// snapshot, re-tag, and remove the folder; guests fail; a replica's wire breaks in every way; replicas of the server are stopped,
// killed and started; stale parents arrive. What must never happen is watched all the time (see watch). Once the trouble ends,
// there must be exactly the members of the spec, and after the delete nothing but the unmanaged VMs, unchanged (and what was
// retained).
//
//	go test ./test -run 'TestChaos$' -v -timeout 1h -chaos.for 50m -chaos.parallel 6
//
// A failing script is shrunk, and what remains of it is printed as the flags that run it again. Lives are not deterministic,
// because vCenter and the replicas take their own time: try them a few times (-chaos.repeat).
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
	crew{*chaosParallel, *chaosSeed, *chaosSeeds, *chaosFor, counts.sums}.run(t, func(t *testing.T, seed uint64) { runOne(t, seed, keep, planted, shrinkFor, counts) })
	t.Log(counts)
}

// runOne runs the life of one seed, and shrinks its script if it fails.
func runOne(t *testing.T, seed uint64, keep []int, planted *defect, shrinkFor time.Duration, counts *counts) {
	steps := kept(script(seed), keep)
	o := runLife(t, seed, steps, planted, counts)
	if len(o.wrong) == 0 {
		return
	}
	counts.add("violation", cmp.Or(first(o.wrong[0]), "without a message"))
	t.Errorf("%s\nagain: go test ./test -race -run 'TestChaos$' -chaos.seed %d -chaos.seeds 1 -chaos.keep %s\nwhat happened:\n%s",
		strings.Join(o.wrong, "\n"), seed, numbers(steps), strings.Join(o.diary, "\n"))
	if *chaosRepeat > 0 {
		t.Logf("seed %d: it fails again %d times of %d", seed, repeats(t, seed, steps, planted, *chaosRepeat), *chaosRepeat)
	}
	if shrinkFor == 0 {
		return
	}
	least := shrink(steps, time.Now().Add(shrinkFor), func(some []step) bool {
		if again := runLife(t, seed, some, planted, newCounts()); len(again.wrong) > 0 {
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

// first is the first line of a text, cut to the length of a name.
func first(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 100)]
}
