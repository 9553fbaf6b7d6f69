package world

import (
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// firstDifference returns the place where two histories begin to differ.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + "\n" + y[i]
		}
	}
	return "one is longer than the other"
}

// A thin run compares ten seeds, because a hundred take ten seconds of processor time.
func TestTheSameSeedGivesTheSameHistoryByteForByte(t *testing.T) {
	size := 0
	for seed := uint64(1); seed <= thin.Of[uint64](100, 10); seed++ {
		set := settingOf(seed)
		first, again := run(t, set, script(set), true), run(t, set, script(set), true)
		if first.history != again.history {
			t.Fatalf("seed %d: %s", seed, firstDifference(first.history, again.history))
		}
		if unread := run(t, set, script(set), false); unread.steps != first.steps || unread.virtual != first.virtual || unread.wrong != first.wrong {
			t.Fatalf("seed %d: the life is another one without a history", seed)
		}
		size += len(first.history)
	}
	if size < thin.Of(1<<20, 10) {
		t.Errorf("the histories have only %d bytes: too little to compare", size)
	}
}

// Every kind of event occurs in some life, and peaceful lives have no harmful ones.
func TestEveryKindOfEventOccurs(t *testing.T) {
	came := map[string]bool{}
	for seed := uint64(1); seed <= 200; seed++ {
		for _, set := range []setting{settingOf(seed), troubledSettingOf(seed)} {
			for _, e := range script(set) {
				if came[e.kind.name] = true; e.kind.harm && set.peaceful {
					t.Errorf("seed %d: %q in a peaceful life", seed, e.kind.name)
				}
			}
		}
	}
	for _, k := range kinds {
		if !came[k.name] {
			t.Errorf("%q never occurs", k.name)
		}
	}
}

// planted are defects that lives find, and the invariant that each breaks. A thin run tests only the first defect, which needs the
// fewest lives.
var planted = []struct {
	name      string
	defect    defect
	invariant string
	most      int // events of its shortest life, at most
}{
	{"a group that is not selected is removed", endsUnselected, "11", 3},
	{"a member is taken down without a mark", takesNoMark, "7", 4},
	{"a clone's name is no lock", clonesBeside, "1", 10},
	{"a folder is removed with what is in it", removesBlindly, "4", 12},
	{"a VM that cannot be read counts as gone", hidesAsGone, "3", 14},
	{"a VM that vCenter does not have counts as destroyed", awayIsGone, "1", 14},
	{"every VM that exists counts as working", seesAllWell, "10", 12},
	{"a paused process does not notice", feelsNoPause, "4", 12},
	{"a disk is known by its name", takesByName, "12", 8},
	{"a disk is taken from another VM", attachesUsed, "12", 10},
	{"a disk is always a new one", makesAnother, "12", 8},
	{"a VM is powered on without a look at its disks", startsWithout, "12", 8},
	{"a VM is destroyed with its disks", deletesDisks, "12", 8},
	{"a member that no replica sees counts as present", countsUnconfirmed, "14", 14},
	{"a member is replaced though no successor can be made", hopeful, "13", 8},
	{"a member that is as the spec says counts as outdated", restless, "13", 8},
}

// For each planted defect, some life fails, fails again in each of a hundred runs, and shrinks to a few events that fail for the same
// reason.
func TestPlantedDefectsAreFoundRepeatAndShrink(t *testing.T) {
	for _, p := range planted[:thin.Of(len(planted), 10)] {
		t.Run(p.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 10_000; seed++ {
				set := settingOf(seed)
				if set.defect = p.defect; p.invariant == "12" && !set.disks {
					continue
				}
				events := script(set)
				o := run(t, set, events, false)
				if invariantOf(o.wrong) != p.invariant {
					continue
				}
				for n := range thin.Of(100, 10) {
					if again := run(t, set, events, false); again.wrong != o.wrong {
						t.Fatalf("seed %d, run %d: %q, want %q as before", seed, n, again.wrong, o.wrong)
					}
				}
				least := leastOf(t, set, events, o.wrong)
				if len(least) > p.most {
					t.Logf("seed %d shrinks from %d events only to %d: trying another life", seed, len(events), len(least))
					continue
				}
				one, two := run(t, set, least, true), run(t, set, least, true)
				if one.history != two.history || invariantOf(one.wrong) != p.invariant {
					t.Errorf("seed %d: the shrunk life does not repeat: %q, %q", seed, one.wrong, two.wrong)
				}
				t.Logf("seed %d: %s; shrunk from %d events to %d", seed, o.wrong, len(events), len(least))
				return
			}
			t.Error("want a life that finds the defect and shrinks to few enough events; got none")
		})
	}
}
