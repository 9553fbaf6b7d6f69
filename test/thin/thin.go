// Package thin says whether a run of tests is thin: with few of the cases that many tests have, such as lives, draws of a property, faults in turn
// and worlds of the model checker.
//
// A run is thin with -short, which make test gives, and with the race detector, which makes each case seven to ten times as expensive. The steps of
// .ci/run, and make test-all, run all cases without the race detector.
package thin

import (
	"cmp"
	"flag"
	"os"
	"testing"
)

// draws is how many times a thin run draws a property, instead of rapid's 100.
const draws = "15"

// Run reports whether this run is thin. It can be called when the flags of the command line are parsed.
func Run() bool { return Raced || testing.Short() }

// Of returns n, or in a thin run a part of it.
func Of[T int | uint64](n, part T) T {
	if Run() {
		return max(1, n/part)
	}
	return n
}

// Out reports whether a thin run leaves case n of a test out, because it has only every part-th case.
func Out(n, part int) bool { return Run() && n%part != 0 }

// NotShort skips a test that takes long for what it shows beyond others, if the run is one with -short.
func NotShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out: make test-all runs it")
	}
}

// NotThin skips a test of which a thin run has no part. It says why, beside the time that the test takes.
func NotThin(t testing.TB, why string) {
	t.Helper()
	if Run() {
		t.Skipf("left out: make test-all runs it; %s", why)
	}
}

// Main is the TestMain of a package with properties. It draws them by the seed of the environment variable SEED, which .ci/run sets to the week of the
// commit, or by the same seed each time, unless the flags -rapid.seed and -rapid.checks say otherwise: make world draws by others.
func Main(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	set := func(name, value string) {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	set("rapid.seed", cmp.Or(os.Getenv("SEED"), "1"))
	if Run() {
		set("rapid.checks", draws)
	}
	os.Exit(m.Run())
}
