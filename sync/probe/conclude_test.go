package probe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// table has groups whose members the test itself asks.
type table struct {
	*Prober
	now time.Time
}

func newTable() *table {
	return &table{&Prober{groups: map[types.UID]*group{}}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// enter adds a member. settled says whether its status says that it is ready.
func (b *table) enter(uid, moRef string, settled bool, success, failure int) {
	g := b.groups[types.UID(uid)]
	if g == nil {
		ok, bad := int32(success), int32(failure)
		g = &group{namespace: namespaceOf(uid), targets: map[string]*target{}, readiness: v1alpha1.Readiness{SuccessThreshold: &ok, FailureThreshold: &bad}}
		b.groups[types.UID(uid)] = g
	}
	g.targets[moRef] = &target{uid: types.UID(uid), moRef: moRef, streak: streak{settled: settled}}
}

func (b *table) find(uid, moRef string) (*group, *target) {
	g := b.groups[types.UID(uid)]
	return g, g.targets[moRef]
}

// namespaceOf is the namespace of a group of a script: p, q and r are another tenant's, and each of x, y and z is one of yet another.
func namespaceOf(uid string) string {
	switch {
	case strings.Contains("pqr", uid):
		return "pqr"
	case strings.Contains("xyz", uid):
		return uid
	}
	return "team"
}

// play carries out a script, a second for each word: "a1+" is an answer of the member 1 of the group a, "a1-" a failure, and "a1x" forgets
// the member; "a1>" begins a try, whose result is the member's next answer or failure. Members whose group is in upper case, and new
// members such as "an1", never answered before; the others were ready.
func play(t *testing.T, script string) *table {
	t.Helper()
	b, entered := newTable(), map[string]bool{}
	words := strings.Fields(script)
	for _, word := range words {
		if uid, moRef := word[:1], word[1:len(word)-1]; !entered[uid+moRef] {
			entered[uid+moRef] = true
			b.enter(uid, moRef, uid == strings.ToLower(uid) && moRef[0] != 'n', 1, 2)
		}
	}
	began := map[string]time.Time{}
	for _, word := range words {
		b.now = b.now.Add(time.Second)
		uid, moRef, what := word[:1], word[1:len(word)-1], word[len(word)-1:]
		g, x := b.find(uid, moRef)
		from, is := began[uid+moRef]
		if !is {
			from = b.now.Add(-time.Millisecond)
			b.asks(g, x)
		}
		delete(began, uid+moRef)
		switch what {
		case ">":
			began[uid+moRef] = b.now
		case "+":
			g.answer(x, from)
		case "-":
			b.fail(g, x, "refused", b.now)
		case "x":
			delete(g.targets, moRef)
		default:
			t.Fatalf("the history has the unknown word %q", word)
		}
	}
	return b
}

// concluded is the result, as "1 Answering, 2 Silent; suspected".
func (b *table) concluded(uid string) string {
	var all []string
	g := b.groups[types.UID(uid)]
	for moRef, x := range g.targets {
		all = append(all, strings.TrimSpace(moRef+" "+string(x.concluded)))
	}
	slices.Sort(all)
	text := strings.Join(all, ", ")
	if g.suspected {
		text += "; suspected"
	}
	return text
}

func TestAMemberThatFailsIsSilentUnlessAllThatAnsweredFailTogether(t *testing.T) {
	for _, c := range []struct{ why, script, want string }{
		{"asked once", "a1+ a2-", "1 Answering, 2"},
		{"another of the group answers between two failures", "a1+ a2- a1+ a2-", "1 Answering, 2 Silent"},
		{"another answers, and it was not asked again", "a1+ a2+ a2- a2- a1+", "1 Answering, 2 Answering"},
		{"another answers, and it fails again", "a1+ a2+ a2- a2- a1+ a2-", "1 Answering, 2 Silent"},
		{"another was being asked since before it failed", "a1+ a2+ a1> a2- a1+ a2-", "1 Answering, 2 Answering"},
		{"it was being asked since before another answered", "a1+ a2+ a2- a2> a1+ a2-", "1 Answering, 2 Answering"},
		{"another answers whenever it is asked", "a1+ a2+ a2- a2> a1+ a2- a2> a1+ a2-", "1 Answering, 2 Silent"},
		{"it answers again", "a1+ a2- a1+ a2- a2+", "1 Answering, 2 Answering"},
		{"all of a group fail", "a1+ a2+ a1- a2- a1- a2-", "1 Answering, 2 Answering; suspected"},
		{"all of a group fail, one after the other", "a1+ a2+ a1- a1- a1- a1- a2- a2-", "1 Answering, 2 Answering; suspected"},
		{"one answers again", "a1+ a2+ a1- a2- a1- a2- a1+", "1 Answering, 2 Answering"},
		{"one answers again, and the other fails once", "a1+ a2+ a1- a2- a1- a2- a1+ a2-", "1 Answering, 2 Answering"},
		{"one answers again, and the other keeps failing", "a1+ a2+ a1- a2- a1- a2- a1+ a2- a1+ a2-", "1 Answering, 2 Silent"},
		{"who never answered, and the path is mended", "a1+ a2+ an3- a1- a2- a1- a2- an3- a1+", "1 Answering, 2 Answering, n3"},
		{"who never answered fails once after the path is mended", "a1+ a2+ an3- a1- a2- a1- a2- a1+ an3-", "1 Answering, 2 Answering, n3"},
		{"who never answered fails again and again after it", "a1+ a2+ an3- a1- a2- a1- a2- a1+ an3- an3-", "1 Answering, 2 Answering, n3 Silent"},
		{"all of a group whose status said they were ready fail after a restart", "a1- a2- a1- a2-", "1, 2; suspected"},
		{"none ever answered", "A1- A2- A1- A2-", "1 Silent, 2 Silent"},
		{"alone in its group and in the world", "a1+ a1- a1-", "1 Silent"},
		{"alone in its group, never answered, others do", "b1+ A1- b1+ A1-", "1 Silent"},
		{"alone in its group, another group answers", "a1+ b1+ a1- b1+ a1-", "1 Silent"},
		{"alone in its group, another group was not asked again", "a1+ b1+ a1- a1-", "1 Answering"},
		{"alone in its group, and all other groups fail", "a1+ b1+ a1- b1- a1- b1- a1-", "1 Answering; suspected"},
		{"alone in its group, two other groups fail at once, and another answers", "a1+ b1+ c1+ d1+ a1- b1- c1- d1+ a1- b1- c1- a1-", "1 Answering; suspected"},
		{"alone in its group, two others fail once, and another answers", "a1+ b1+ c1+ d1+ a1- b1- c1- d1+ a1-", "1 Answering"},
		{"alone in its group, two others failed once", "a1+ b1+ c1+ d1+ a1- b1- c1- d1+ a1- b1+ c1+ a1-", "1 Silent"},
		{"alone since the other of its group is silent", "a1+ a2+ b1+ a2- a1+ a2- a1- b1+ a1-", "1 Silent, 2 Silent"},
		{"alone since the others of its suspected group are gone", "a1+ a2+ a3+ a1- a2- a3- a1- a2- a3- a2x a3x a1- a1-", "1 Answering; suspected"},
		{"the same, while another group answers", "a1+ a2+ b1+ a1- a2- a1- a2- a2x b1+ a1- b1+ a1-", "1 Answering; suspected"},
		{"the same, and it answers", "a1+ a2+ a1- a2- a1- a2- a2x a1+", "1 Answering"},
		{"alone in its group, suspected beside another that is gone", "a1+ b1+ a1- b1- a1- b1- a1- b1x a1-", "1 Answering; suspected"},
		{"alone in its group, suspected beside another that answers again", "a1+ b1+ a1- b1- a1- b1- a1- b1+ a1- a1- b1+ a1-", "1 Silent"},
		{"alone in its namespace, and all groups of one other tenant fail", "a1+ p1+ q1+ r1+ a1- p1- q1- r1- a1- p1- q1- r1- a1- a1- a1-", "1 Answering"},
		{"the same, three times as often", "a1+ p1+ q1+ r1+ a1- p1- q1- r1- a1- p1- q1- r1- a1- a1- a1- a1-", "1 Silent"},
		{"the same, and a group of another tenant answers", "a1+ p1+ q1+ r1+ x1+ a1- p1- q1- r1- x1+ a1- p1- q1- r1-", "1 Silent"},
		{"one other tenant is never asked", "a1+ p1+ q1+ r1+ a1- a1- a1- a1- a1- a1-", "1 Silent"},
		{"one other tenant is never asked, and another fails", "a1+ p1+ q1+ x1+ a1- x1- a1- x1- a1- a1- a1- a1- a1-", "1 Answering"},
		{"two other tenants fail at once", "a1+ p1+ x1+ a1- p1- x1- a1- p1- x1- a1-", "1 Answering; suspected"},
		{"two other tenants fail at once, and one of them answers elsewhere", "a1+ p1+ q1+ x1+ a1- p1- x1- q1+ a1- p1- x1- a1-", "1 Silent"},
		{"one other tenant fails, and a group of its own namespace", "a1+ b1+ p1+ q1+ a1- b1- p1- q1- a1- b1- p1- q1- a1-", "1 Answering; suspected"},
		{"alone since the other of its group is gone", "a1+ a2+ b1+ a2x a1- b1+ a1-", "1 Silent"},
	} {
		uid := "a"
		if strings.Contains(c.script, "A") {
			uid = "A"
		}
		if got := play(t, c.script).concluded(uid); got != c.want {
			t.Errorf("%s (%s): %s, want %s", c.why, c.script, got, c.want)
		}
	}
}

func TestGroupsThatFailedLongAgoAreNoneThatFailAtOnce(t *testing.T) {
	b := newTable()
	for _, uid := range []string{"a", "b", "c", "d"} {
		b.enter(uid, "1", true, 1, 2)
	}
	for _, uid := range []string{"b", "c", "a"} {
		g, x := b.find(uid, "1")
		other, y := b.find("d", "1")
		for range 2 {
			b.asks(g, x)
			b.fail(g, x, "refused", b.now)
			other.answer(y, b.now.Add(time.Second))
			b.now = b.now.Add(2 * time.Second)
		}
		if got := b.concluded(uid); got != "1 Silent" {
			t.Errorf("%s: %s; want %s", uid, got, "1 Silent")
		}
		b.now = b.now.Add(2 * atOnce)
	}
}

// When the network to the guests breaks and recovers, a member whose service ran all the time never counts as silent, whatever else
// happens.
func TestNoMemberIsSilentBecauseThePathBroke(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := newTable()
		type key struct{ uid, moRef string }
		var all []key
		for g := range 1 + r.IntN(4) {
			for m := range 2 + r.IntN(4) {
				k := key{fmt.Sprint("g", g), fmt.Sprint("vm-", m)}
				all = append(all, k)
				b.enter(k.uid, k.moRef, true, 1+r.IntN(2), 1+r.IntN(3))
			}
		}
		broken := false
		for range 12 {
			for i := range (1 + r.IntN(4)) * len(all) { // each member is asked once in each round, in any order
				if i%len(all) == 0 {
					r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				}
				g, x := b.find(all[i%len(all)].uid, all[i%len(all)].moRef)
				if b.now = b.now.Add(time.Second); broken {
					b.asks(g, x)
					b.fail(g, x, "timed out", b.now)
				} else {
					g.answer(x, b.now)
				}
				if x.concluded == plan.Silent {
					t.Fatalf("seed %d: %s of %s is silent", seed, x.moRef, x.uid)
				}
			}
			broken = !broken
		}
	}
}
