package world

import (
	"strings"
	"testing"
)

// firstDifference is where two histories part ways.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + "\n" + y[i]
		}
	}
	return "one is longer than the other"
}

func TestTheSameSeedGivesTheSameHistoryByteForByte(t *testing.T) {
	size := 0
	for seed := uint64(1); seed <= 100/thinning; seed++ {
		set := settingOf(seed)
		first, again := lead(t, set, script(set), true), lead(t, set, script(set), true)
		if first.history != again.history {
			t.Fatalf("seed %d: %s", seed, firstDifference(first.history, again.history))
		}
		if unread := lead(t, set, script(set), false); unread.steps != first.steps || unread.virtual != first.virtual || unread.wrong != first.wrong {
			t.Fatalf("seed %d is another life when nobody reads its history", seed)
		}
		size += len(first.history)
	}
	if size < 1<<20/thinning {
		t.Errorf("the histories have %d bytes in all: they tell too little to compare", size)
	}
}

// Every kind of event happens to some life, and peaceful lives have no harm.
func TestEveryKindOfEventComes(t *testing.T) {
	came := map[string]bool{}
	for seed := uint64(1); seed <= 50; seed++ {
		set := settingOf(seed)
		for _, e := range script(set) {
			if came[e.kind.name] = true; e.kind.harm && set.peaceful {
				t.Errorf("seed %d: %q in a peaceful life", seed, e.kind.name)
			}
		}
	}
	for _, k := range kinds {
		if !came[k.name] {
			t.Errorf("%q never comes", k.name)
		}
	}
}

// planted are defects that are found, and the invariant that each breaks. The first one is found the soonest: with the race
// detector it is the only one.
var planted = []struct {
	name   string
	defect defect
	law    string
	most   int // events that its shortest life needs at most
}{
	{"a group that is not selected is removed", endsUnselected, "11", 3},
	{"a member is taken down instead of marked", takesNoMark, "7", 4},
	{"a clone's name is no lock", clonesBeside, "1", 10},
	{"a folder is removed with what is in it", removesBlindly, "4", 12},
	{"a VM that cannot be read is taken for gone", hidesAsGone, "3", 14},
	{"a VM that vCenter does not have is taken for destroyed", awayIsGone, "1", 14},
	{"whatever exists is taken for being at work", seesAllWell, "10", 12},
	{"a process that stood still does not notice", feelsNoPause, "4", 12},
}

// A defect that is planted is found by some life; that life fails each time that it is led, a hundred times of a hundred;
// and it shrinks to a handful of events, which fail for the same reason.
func TestPlantedDefectsAreFoundRepeatAndShrink(t *testing.T) {
	for _, p := range planted[:max(1, len(planted)/thinning)] {
		t.Run(p.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 3000; seed++ {
				set := settingOf(seed)
				set.defect = p.defect
				events := script(set)
				o := lead(t, set, events, false)
				if law(o.wrong) != p.law {
					continue
				}
				for n := range 100 / thinning {
					if again := lead(t, set, events, false); again.wrong != o.wrong {
						t.Fatalf("seed %d, time %d: %q, and before %q", seed, n, again.wrong, o.wrong)
					}
				}
				least := leastOf(t, set, events, o.wrong)
				if len(least) > p.most {
					t.Errorf("seed %d shrinks from %d events to %d only: %v", seed, len(events), len(least), least)
				}
				one, two := lead(t, set, least, true), lead(t, set, least, true)
				if one.history != two.history || law(one.wrong) != p.law {
					t.Errorf("seed %d: what it shrank to does not repeat: %q, %q", seed, one.wrong, two.wrong)
				}
				t.Logf("seed %d: %s; shrunk from %d events to %d", seed, o.wrong, len(events), len(least))
				return
			}
			t.Error("no life finds it")
		})
	}
}
