package test

import (
	"flag"
	"runtime"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

var (
	chaosSeeds    = flag.Int("chaos.seeds", chaosDefault, "how many lives the chaos test runs")
	chaosSeed     = flag.Uint64("chaos.seed", 10, "the first seed; a failure names its own")
	chaosKeep     = flag.String("chaos.keep", "", "the steps of the script to carry out, such as 3,9,12; all by default")
	chaosFor      = flag.Duration("chaos.for", 0, "run lives for this long instead, as many as that allows")
	chaosParallel = flag.Int("chaos.parallel", runtime.GOMAXPROCS(0), "how many lives run at once")
)

// TestChaos runs lives by scripts that a seed gives: users edit, delete and recreate; operators power, destroy, move, rename,
// snapshot, re-tag, and remove the folder; guests fail; a replica's wire breaks in every way; replicas of the server are stopped,
// killed, started, and paused at a call; stale parents arrive. What must never happen is watched all the time (see watch). Once the trouble ends,
// there must be exactly the members of the spec, and after the delete nothing but the unmanaged VMs, unchanged (and what was
// retained).
//
//	go test ./test -run 'TestChaos$' -v -timeout 1h -chaos.for 50m -chaos.parallel 6
//
// A failing script is shrunk, and what remains of it is printed as the flags that run it again. Lives are not deterministic,
// because vCenter and the replicas take their own time: try them a few times (-chaos.repeat).
func TestChaos(t *testing.T) {
	t.Parallel()
	some, err := parseKeep(*chaosKeep)
	must.Succeed(t, err)
	planted, counts := plantedDefect(t), newCounts()
	workers{abreast: *chaosParallel, first: *chaosSeed, lives: *chaosSeeds, lasts: *chaosFor, more: counts.sums}.run(t, func(t *testing.T, seed uint64) {
		steps := kept(script(seed), some)
		if o := runLife(t, seed, steps, planted, counts); len(o.wrong) > 0 {
			a := againOf(t, seed, planted)
			a.shrink = shrinkTime(*chaosFor > 0 || *chaosSeeds > chaosDefault)
			counts.add("violation", a.report(t, steps, o))
		}
	})
	t.Log(counts)
}
