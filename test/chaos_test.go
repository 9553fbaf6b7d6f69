package test

import (
	"cmp"
	"flag"
	"runtime"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

var (
	chaosSeeds    = flag.Int("chaos.seeds", 0, "how many lives the chaos test runs; 0: two, or one in a thin run")
	chaosSeed     = flag.Uint64("chaos.seed", 10, "the first seed; a failure names its own")
	chaosKeep     = flag.String("chaos.keep", "", "the steps of the script to carry out, such as 3,9,12; all by default")
	chaosFor      = flag.Duration("chaos.for", 0, "run lives for this long instead, as many as that allows")
	chaosParallel = flag.Int("chaos.parallel", runtime.GOMAXPROCS(0), "how many lives run at once")
)

// TestChaos runs lives whose scripts a seed determines. Users edit, delete and recreate the group. Operators power VMs on and off, destroy, move, rename,
// snapshot and re-tag VMs, and remove the folder. Guests fail. The wire of a replica breaks in every way. Replicas of the server are stopped, killed,
// started, and paused at a call. Stale parents arrive. A watch checks all the time that nothing happens that must never happen (see watch). Once the
// trouble has ended, exactly the members of the spec must exist. After the deletion, only the unmanaged VMs (unchanged) and the retained VMs may exist.
//
//	go test ./test -run 'TestChaos$' -v -timeout 1h -chaos.for 50m -chaos.parallel 6
//
// The test shrinks a failing script, and prints the flags that run the shrunk script again. Lives are not deterministic, because the order in which
// vCenter and the replicas act varies: run a script a few times (-chaos.repeat).
func TestChaos(t *testing.T) {
	t.Parallel()
	some, err := parseKeep(*chaosKeep)
	must.Succeed(t, err)
	// In the first life, operators intervene. In the second life no operator does, so the test also checks the promise of availability.
	lives := cmp.Or(*chaosSeeds, thin.Of(2, 2))
	planted, counts := plantedDefect(t), newCounts()
	workers{abreast: *chaosParallel, first: *chaosSeed, lives: lives, lasts: *chaosFor, more: counts.sums}.run(t, func(t *testing.T, seed uint64) {
		steps := kept(script(seed), some)
		if o := runLife(t, seed, steps, planted, counts); len(o.wrong) > 0 {
			a := againOf(t, seed, planted)
			a.shrink = shrinkTime(*chaosFor > 0 || *chaosSeeds > 2)
			counts.add("violation", a.report(t, steps, o))
		}
	})
	t.Log(counts)
}
