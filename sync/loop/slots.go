package loop

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/limiter"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func kindOf(op plan.Op) limiter.Kind {
	switch op {
	case plan.PowerOn, plan.PowerOff, plan.Reset, plan.ShutdownGuest:
		return limiter.Power
	case plan.Clone:
		return limiter.Clones
	}
	return limiter.Others
}

// turnSteps is how many steps a group begins in its turn. A group of four is up with eight: a clone and a power-on for each member. So of many
// small groups that are applied, or deleted, at once, one after the other is finished: if each took one step at a time, all would be finished
// only at the end.
//
// The fewer steps a group waits for, the sooner its turn comes: what heals or adds one member doesn't wait for large groups that are created. Each
// turnSteps times that such a group has passed it, a group counts as one that waits for a step less, so none waits for ever.
const turnSteps = 8

// turn is the group's place in the queue for slots.
type turn struct {
	steps    int            // that it has begun in this turn
	awaits   int            // for how many steps it waits
	passed   int            // how often a group that waits for fewer steps was queued before it
	waits    []limiter.Work // it waits for a slot for any one of these
	failing  bool           // all its actions would probably fail (wouldFail)
	reserved *limiter.Work  // the slot for its next round, because it waited for one
}

// workOf returns what an action of a group puts a load on.
func workOf(a *plan.Action, s *plan.VCenterState) limiter.Work {
	w := limiter.Work{Kind: kindOf(a.Op), LatencyClass: string(a.Op)}
	if a.Op == plan.Clone {
		template := plan.ArgsOf[plan.CloneArgs](a.Args).Template
		w.Source, w.Target, w.LatencyClass = cmp.Or(s.Template.Host, template), s.Target, template
	}
	return w
}

// free reports whether there is a slot for that work that is neither taken nor reserved for a group that waited: one of the slots, or one beyond them.
// The caller holds l.mu.
func (l *Loop) free(g *group, w limiter.Work) bool { return l.limiter.Permits(w, l.beyond(g)) }

// beyond is how many steps beyond the slots can run with one of the group: one more if nothing of the group is in progress, and another if nothing of its
// namespace is, because the groups of one tenant can take all others. A slot that becomes free is then for a group of such a namespace, if one waits, wherever
// in the queue it is. The caller holds l.mu.
func (l *Loop) beyond(g *group) int {
	switch {
	case l.working[g.ref.Namespace] == 0:
		return 2
	case g.runs.atWork() == 0:
		return 1
	}
	return 0
}

// count changes a number of steps.
func count[K comparable](of map[K]int, key K, by int) {
	if of[key] += by; of[key] == 0 {
		delete(of, key)
	}
}

// wouldFail reports whether all of a group's actions would probably fail: they failed before, or those of other groups do, for causes that these
// would have, too; and no try has succeeded since. The caller holds l.mu.
func (l *Loop) wouldFail(g *group, actions []plan.Action) bool {
	return !slices.ContainsFunc(actions, func(a plan.Action) bool {
		f, failed := g.failures.of(g.lease.call.Group, &a)
		return !(failed && f.cause.tries > 0) && !l.causes.failing(g.lease.call.Group, &a)
	})
}

// holdsBack reports whether a group leaves the free slots to others. Of many groups that are applied while a datastore is full, each tries to clone
// once; of many whose steps fail without a cause in common, each tries again at its own pace. All these tries of one kind take no more than half of the
// slots, and one more for a namespace that has none. The kinds don't share that half: a power-on that failed for a moment must not wait for clones that
// fail after minutes. The caller holds l.mu.
func (l *Loop) holdsBack(g *group, k limiter.Kind) bool {
	most := l.failingMost()
	if l.failing[kindOfOne{k, g.ref.Namespace}] == 0 {
		most++
	}
	return g.turn.failing && l.failing[kindOfOne{kind: k}] >= most
}

// kindOfOne is a kind of steps of one namespace or, if that is empty, of all.
type kindOfOne struct {
	kind      limiter.Kind
	namespace string
}

// countFailing counts a step of a namespace that would probably fail. The caller holds l.mu.
func (l *Loop) countFailing(of kindOfOne, by int) {
	count(l.failing, of, by)
	count(l.failing, kindOfOne{kind: of.kind}, by)
}

// failingMost is how many steps of a kind that would probably fail can run.
func (l *Loop) failingMost() int { return max(1, l.cfg.Slots/2) }

// settle notes that a step no longer counts as one that would probably fail: it has ended, or has run for longer than it took to fail, or its task
// makes no progress and may never end. The caller holds l.mu.
func (l *Loop) settle(r *run) {
	if r.failing != nil {
		l.countFailing(*r.failing, -1)
		r.failing = nil
	}
}

// first returns the index of the first action that has a free slot, which the group doesn't leave to others, or that needs none; or -1, and the work
// that the group waits for. The caller holds l.mu.
func (l *Loop) first(g *group, actions []plan.Action, s *plan.VCenterState) (at int, work limiter.Work, waits []limiter.Work) {
	for i := range actions {
		if !takesSlot(&actions[i]) {
			return i, limiter.Work{}, nil
		}
		w := workOf(&actions[i], s)
		if slices.Contains(waits, w) {
			continue
		}
		if !l.holdsBack(g, w.Kind) && l.free(g, w) {
			return i, w, nil
		}
		waits = append(waits, w)
	}
	return -1, limiter.Work{}, waits
}

// wait queues a group for slots for its next steps, in the order of rank. The caller holds l.mu.
func (l *Loop) wait(g *group, works []limiter.Work, steps int) {
	g.turn.waits, g.turn.awaits = works, steps
	if slices.Contains(l.waiting, g.ref.UID) {
		return
	}
	if g.turn.steps >= turnSteps {
		g.turn.steps = 0
	}
	at := len(l.waiting)
	for ; at > 0; at-- {
		before := l.groups[l.waiting[at-1]]
		if before != nil && before.rank() <= g.rank() {
			break
		}
		if before != nil && g.awaitsTurn() {
			before.turn.passed++
		}
	}
	l.waiting = slices.Insert(l.waiting, at, g.ref.UID)
}

// leave takes a group that has nothing to do out of the queue. The caller holds l.mu.
func (l *Loop) leave(g *group) {
	if g.turn.waits != nil {
		g.turn.waits = nil
		l.waiting = slices.DeleteFunc(l.waiting, func(uid types.UID) bool { return uid == g.ref.UID })
	}
}

// awaitsTurn reports whether a group that waits has not begun its turn. Steps that would probably fail are no part of one. Nor is its folder, which
// takes a moment, and can be created only right after a call (plan.MayCreateFolder).
func (g *group) awaitsTurn() bool {
	return (g.turn.steps == 0 || g.turn.failing) && !slices.ContainsFunc(g.turn.waits, func(w limiter.Work) bool { return w.LatencyClass == string(plan.CreateFolder) })
}

// rank orders the groups that wait: those whose turn it is come first, and of the others those that wait for fewer steps.
func (g *group) rank() int {
	if !g.awaitsTurn() {
		return 0
	}
	return max(1, min(g.turn.awaits, turnSteps)-g.turn.passed/turnSteps)
}

// queues reports whether the group's turn is still to come, and nothing of it runs: its status has nothing new until then.
func (g *group) queues() bool { return g.turn.waits != nil && g.awaitsTurn() && len(g.runs) == 0 }

// next gives a round to the first groups in the queue, while there are slots for them. Afterwards, each group that still waits has no
// free slot, and a group that did not wait takes none from them. The caller holds l.mu.
func (l *Loop) next() {
	type asked struct {
		limiter.Work
		beyond int
	}
	refused := map[asked]bool{} // thousands of groups may wait for the same
	l.waiting = slices.DeleteFunc(l.waiting, func(uid types.UID) bool {
		g := l.groups[uid]
		if g == nil {
			return true
		}
		for _, w := range g.turn.waits {
			if l.holdsBack(g, w.Kind) {
				continue
			}
			ask := asked{w, l.beyond(g)}
			if refused[ask] {
				continue
			}
			if l.free(g, w) {
				l.limiter.Reserve(w)
				count(l.working, g.ref.Namespace, 1)
				g.turn.reserved, g.turn.waits = &w, nil
				l.queue.Add(uid)
				return true
			}
			refused[ask] = true
		}
		return false
	})
}

// handOff ends the reservation that next made for a group's round. The caller holds l.mu.
func (l *Loop) handOff(g *group) {
	if g != nil && g.turn.reserved != nil {
		l.limiter.Unreserve(*g.turn.reserved)
		count(l.working, g.ref.Namespace, -1)
		g.turn.reserved = nil
	}
}

// returned frees the slot of an action that has ended, and tells the limiter how the action went. The caller holds l.mu.
func (l *Loop) returned(g *group, a *plan.Action, err error, took plan.StepResult, now time.Time) {
	if r := g.runs[a.Key]; r.slot != nil {
		if l.settle(r); r.stalled == nil {
			count(l.working, g.ref.Namespace, -1)
		}
		l.tellCut(l.limiter.End(r.slot, now, limiter.Outcome{Queued: took.Queued, Ran: took.Ran, Failed: err != nil, Overload: took.Overload, Unanswered: took.Unanswered}))
		r.slot = nil
	}
}

// tellCut logs and counts a limit that was cut. The caller holds l.mu.
func (l *Loop) tellCut(cut *limiter.Limit, congestion limiter.Congestion) {
	if cut != nil {
		l.metrics.reduced.WithLabelValues(string(cut.Kind), string(congestion)).Inc()
		l.cfg.Log.Info().Str("of", limitOf(cut).Of).Int("limit", cut.Size).Str("reason", cut.Why).Msg("limit lowered")
	}
}

// waitsFor returns the limits that keep a group from its next steps. The caller holds l.mu.
func (l *Loop) waitsFor(g *group) (all []plan.Limit) {
	for _, w := range g.turn.waits {
		for _, n := range l.limiter.Blocking(w) {
			if x := limitOf(&n); !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
	}
	if at := slices.IndexFunc(g.turn.waits, func(w limiter.Work) bool { return l.holdsBack(g, w.Kind) }); at >= 0 {
		most := l.failingMost()
		all = append(all, plan.Limit{Of: "steps that failed before or fail for other groups", Now: most, Most: most, Running: l.failing[kindOfOne{kind: g.turn.waits[at].Kind}], Reason: "the other slots are for steps that may succeed"})
	}
	return all
}

// limitOf is a limit for reports.
func limitOf(n *limiter.Limit) plan.Limit {
	of := map[limiter.Kind]string{limiter.Clones: "clones", limiter.Power: "power operations", limiter.Others: "other steps", "": "all steps"}[n.Kind]
	if n.Source != "" {
		of += " from " + n.Source
	}
	if n.Target != "" {
		of += " to " + n.Target
	}
	return plan.Limit{Of: of, Now: n.Size, Most: n.Most, Running: n.Used, Reason: n.Why}
}

// Slots returns how many actions run, and how many can.
func (l *Loop) Slots() plan.Slots {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := plan.Slots{Most: l.cfg.Slots, Running: l.limiter.Used(), Waiting: len(l.waiting)}
	for _, n := range l.limiter.Limits() {
		s.Limits = append(s.Limits, limitOf(&n))
	}
	return s
}
