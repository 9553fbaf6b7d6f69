package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// play carries out a script on a ledger, a second for each word: "a1+" is an answer of the member 1 of the group a, "a1-" a failure, "a1x"
// forgets it; "a1>" begins to ask it, so that its next answer or failure is that of this try. Members whose group is in upper case, and new
// ones as "an1", never answered before; others were ready.
func play(t *testing.T, script string) *Ledger {
	t.Helper()
	l, entered := New(), map[string]bool{}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	words := strings.Fields(script)
	for _, word := range words {
		if uid, moRef := word[:1], word[1:len(word)-1]; !entered[uid+moRef] {
			entered[uid+moRef] = true
			l.Enter(uid, moRef, uid == strings.ToLower(uid) && moRef[0] != 'n', Thresholds{1, 2})
		}
	}
	asked := map[string]bool{}
	for _, word := range words {
		now = now.Add(time.Second)
		uid, moRef, what := word[:1], word[1:len(word)-1], word[len(word)-1:]
		if !asked[uid+moRef] {
			l.Begin(uid, moRef, now)
		}
		asked[uid+moRef] = what == ">"
		switch what {
		case ">":
		case "+":
			l.Answered(uid, moRef, now)
		case "-":
			l.Failed(uid, moRef, "refused", now)
		case "x":
			l.Forget(uid, moRef, now)
		default:
			t.Fatal(word)
		}
	}
	return l
}

// told is what is concluded, as "a: 1 Answering, 2 Silent; doubted".
func told(l *Ledger, uid string) string {
	var all []string
	a := l.Look(uid)
	for moRef, one := range a.Of {
		all = append(all, strings.TrimSpace(moRef+" "+string(one.Concluded)))
	}
	slices.Sort(all)
	text := strings.Join(all, ", ")
	if a.Doubted {
		text += "; doubted"
	}
	return text
}

func TestAFailureIsBelievedOnlyWithAWitness(t *testing.T) {
	for _, c := range []struct{ why, script, want string }{
		{"asked once", "a1+ a2-", "1 Answering, 2"},
		{"another of the group answers between two failures", "a1+ a2- a1+ a2-", "1 Answering, 2 Silent"},
		{"another answers, and it was not asked again", "a1+ a2+ a2- a2- a1+", "1 Answering, 2 Answering"},
		{"another answers, and it fails again", "a1+ a2+ a2- a2- a1+ a2-", "1 Answering, 2 Silent"},
		{"it answers again", "a1+ a2- a1+ a2- a2+", "1 Answering, 2 Answering"},
		{"all of a group fail", "a1+ a2+ a1- a2- a1- a2-", "1 Answering, 2 Answering; doubted"},
		{"all of a group fail, one after the other", "a1+ a2+ a1- a1- a1- a1- a2- a2-", "1 Answering, 2 Answering; doubted"},
		{"one answers again", "a1+ a2+ a1- a2- a1- a2- a1+", "1 Answering, 2 Answering"},
		{"one answers again, and the other fails again", "a1+ a2+ a1- a2- a1- a2- a1+ a2-", "1 Answering, 2 Silent"},
		{"who was silent before needs a new witness", "a1+ a2+ a3- a1+ a3- a1- a2- a1- a2- a3- a1+", "1 Answering, 2 Answering, 3"},
		{"who was silent before, and fails again", "a1+ a2+ a3- a1+ a3- a1- a2- a1- a2- a3- a1+ a3-", "1 Answering, 2 Answering, 3 Silent"},
		{"who never answered, and the path is mended", "a1+ a2+ an3- a1- a2- an3- a1- a2- an3- a1+", "1 Answering, 2 Answering, n3"},
		{"who never answered fails once after the path is mended", "a1+ a2+ an3- a1- a2- an3- a1- a2- a1+ an3-", "1 Answering, 2 Answering, n3"},
		{"who never answered fails again and again after it", "a1+ a2+ an3- a1- a2- an3- a1- a2- a1+ an3- an3-", "1 Answering, 2 Answering, n3 Silent"},
		{"who never answered was being asked when the path was mended", "a1+ a2+ a1- a2- a1- a2- an3- an3> a1+ an3- an3-", "1 Answering, 2 Answering, n3"},
		{"all of a group whose status said they were ready fail after a restart", "a1- a2- a1- a2-", "1, 2; doubted"},
		{"nobody ever answered", "A1- A2- A1- A2-", "1 Silent, 2 Silent"},
		{"alone in its group and in the world", "a1+ a1- a1-", "1 Silent"},
		{"alone in its group, never answered, others do", "b1+ A1- b1+ A1-", "; nothing"},
		{"alone in its group, another group answers", "a1+ b1+ a1- b1+ a1-", "1 Silent"},
		{"alone in its group, another group was not asked again", "a1+ b1+ a1- a1-", "1 Answering"},
		{"alone in its group, and all other groups fail", "a1+ b1+ a1- b1- a1- b1- a1-", "1 Answering; doubted"},
		{"alone in its group, two other groups fail at once, and another answers", "a1+ b1+ c1+ d1+ a1- b1- c1- d1+ a1- b1- c1- a1-", "1 Answering; doubted"},
		{"alone in its group, two others fail once, and another answers", "a1+ b1+ c1+ d1+ a1- b1- c1- d1+ a1-", "1 Answering"},
		{"alone in its group, two others failed once", "a1+ b1+ c1+ d1+ a1- b1- c1- d1+ a1- b1+ c1+ a1-", "1 Silent"},
		{"alone since the other of its group is silent", "a1+ a2+ b1+ a2- a1+ a2- a1- b1+ a1-", "1 Silent, 2 Silent"},
		{"alone since the others of its doubted group are gone", "a1+ a2+ a3+ a1- a2- a3- a1- a2- a3- a2x a3x a1- a1-", "1 Answering; doubted"},
		{"the same, while another group answers", "a1+ a2+ b1+ a1- a2- a1- a2- a2x b1+ a1- b1+ a1-", "1 Answering; doubted"},
		{"the same, and it answers", "a1+ a2+ a1- a2- a1- a2- a2x a1+", "1 Answering"},
		{"alone in its group, doubted beside another that is gone", "a1+ b1+ a1- b1- a1- b1- a1- b1x a1-", "1 Answering; doubted"},
		{"alone in its group, doubted beside another that answers again", "a1+ b1+ a1- b1- a1- b1- a1- b1+ a1-", "1 Silent"},
		{"alone since the other of its group is gone", "a1+ a2+ b1+ a2x a1- b1+ a1-", "1 Silent"},
	} {
		uid := "a"
		if strings.Contains(c.script, "A") {
			uid = "A"
		}
		if c.want == "; nothing" {
			c.want = "1 Silent"
		}
		if got := told(play(t, c.script), uid); got != c.want {
			t.Errorf("%s (%s): %s, want %s", c.why, c.script, got, c.want)
		}
	}
}

func TestGroupsThatFailedLongAgoAreNoneThatFailAtOnce(t *testing.T) {
	l, now := New(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, uid := range []string{"a", "b", "c", "d"} {
		l.Enter(uid, "1", true, Thresholds{1, 2})
	}
	fail := func(uid string) {
		for range 2 {
			l.Begin(uid, "1", now)
			l.Failed(uid, "1", "refused", now)
			l.Begin("d", "1", now)
			l.Answered("d", "1", now)
		}
	}
	for _, uid := range []string{"b", "c", "a"} {
		fail(uid)
		if got := told(l, uid); got != "1 Silent" {
			t.Errorf("%s: %s", uid, got)
		}
		now = now.Add(2 * atOnce)
	}
}

func TestAGroupThatWasDoubtedBeforeIsDoubtedUntilOneAnswers(t *testing.T) {
	l, now := New(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l.Enter("a", "1", true, Thresholds{1, 1})
	l.Doubt("a", now)
	for range 3 {
		l.Begin("a", "1", now)
		l.Failed("a", "1", "refused", now)
	}
	if got := told(l, "a"); got != "1; doubted" {
		t.Error(got)
	}
	l.Answered("a", "1", now)
	if got := told(l, "a"); got != "1 Answering" {
		t.Error(got)
	}
}

// Whatever happens: who is silent answered never, or failed since somebody else answered; and when the path breaks and is mended, nobody is
// silent whose service ran all the time.
func TestNobodyIsSilentBecauseThePathBroke(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		l, now := New(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		type key struct{ uid, moRef string }
		var all []key
		for g := range 1 + r.IntN(4) {
			for m := range 2 + r.IntN(4) {
				k := key{fmt.Sprint("g", g), fmt.Sprint("vm-", m)}
				all = append(all, k)
				l.Enter(k.uid, k.moRef, true, Thresholds{1 + r.IntN(2), 1 + r.IntN(3)})
			}
		}
		broken := false
		for range 12 {
			for i := range (1 + r.IntN(4)) * len(all) { // each is asked in each time, in any order
				if i%len(all) == 0 {
					r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				}
				k := all[i%len(all)]
				now = now.Add(time.Second)
				if l.Begin(k.uid, k.moRef, now); broken {
					l.Failed(k.uid, k.moRef, "timed out", now)
				} else {
					l.Answered(k.uid, k.moRef, now)
				}
				for moRef, a := range l.Look(k.uid).Of {
					if a.Concluded == plan.Silent {
						t.Fatalf("seed %d: %s of %s is silent", seed, moRef, k.uid)
					}
				}
			}
			broken = !broken
		}
	}
}
