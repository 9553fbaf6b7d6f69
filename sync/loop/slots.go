package loop

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/pace"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func kindOf(op plan.Op) pace.Kind {
	switch op {
	case plan.PowerOn, plan.PowerOff, plan.Reset, plan.ShutdownGuest:
		return pace.Power
	case plan.Clone:
		return pace.Clones
	}
	return pace.Others
}

// workOf returns what an action of a group puts a load on.
func workOf(a *plan.Action, s *plan.VCenterState) pace.Work {
	w := pace.Work{Kind: kindOf(a.Op), Like: string(a.Op)}
	if a.Op == plan.Clone {
		w.Source, w.Target, w.Like = cmp.Or(s.Template.Host, a.Template), s.Target, a.Template
		w.Light = a.Details != nil && a.Details.Spec != nil && a.Details.Spec.Clone.Mode == v1alpha1.CloneLinked
	}
	return w
}

// free reports whether a slot for that work is neither taken nor reserved for a group that waited: one of the slots, or the extra one
// for a group that has nothing under way. The caller holds l.mu.
func (l *Loop) free(g *group, w pace.Work) bool {
	return l.pace.Rest(time.Now()) == 0 && l.pace.May(w, g.atWork() == 0)
}

// first returns the first action with a free slot, or that needs none; or -1 and what the group waits for. The caller holds l.mu.
func (l *Loop) first(g *group, actions []plan.Action, s *plan.VCenterState) (at int, work pace.Work, waits []pace.Work) {
	for i := range actions {
		if !takesSlot(&actions[i]) {
			return i, pace.Work{}, nil
		}
		w := workOf(&actions[i], s)
		if slices.Contains(waits, w) {
			continue
		}
		if l.free(g, w) {
			return i, w, nil
		}
		waits = append(waits, w)
	}
	return -1, pace.Work{}, waits
}

// waiter is a group that waits for a slot: for its next turn, or for the next step of a member that has begun to go.
type waiter struct {
	uid types.UID
	vm  string // "" for a turn
}

// wait makes a group wait for a slot, behind those that wait already. The caller holds l.mu.
func (l *Loop) wait(g *group, works []pace.Work) {
	if w := (waiter{uid: g.ref.UID}); !slices.Contains(l.waiting, w) {
		l.waiting = append(l.waiting, w)
	}
	g.waits = works
}

// waitingGroups are the groups that wait. The caller holds l.mu.
func (l *Loop) waitingGroups() map[types.UID]bool {
	all := make(map[types.UID]bool, len(l.waiting))
	for _, w := range l.waiting {
		all[w.uid] = true
	}
	return all
}

// next gives the groups that have waited longest their turn, while there are slots for them. So whoever still waits after it has no
// free slot, and a group that did not wait takes none from them. The caller holds l.mu.
func (l *Loop) next() {
	type asked struct {
		pace.Work
		extra bool
	}
	refused := map[asked]bool{} // thousands of groups may wait for the same
	l.waiting = slices.DeleteFunc(l.waiting, func(who waiter) bool {
		g := l.groups[who.uid]
		if g == nil {
			return true
		}
		works := g.waits
		if who.vm != "" {
			works = finishing
		}
		for _, w := range works {
			ask := asked{w, g.atWork() == 0}
			if refused[ask] {
				continue
			}
			if l.free(g, w) {
				l.reserve(g, who.vm, w)
				if who.vm == "" {
					g.waits = nil
				}
				l.queue.Add(who.uid)
				return true
			}
			refused[ask] = true
		}
		return false
	})
}

// finishing is what the next step of a member that has begun to go needs a slot for.
var finishing = []pace.Work{{Kind: pace.Others}}

// passOn reserves a slot for the next step of a member when one has ended: in a group that is deleted, a member that has begun to go is
// finished before others begin. It is the slot of the step that has ended or, where that was given away when the step should have ended
// (Over), the next one that is free. Nobody waits longer for a slot than that member takes. The caller holds l.mu.
func (l *Loop) passOn(g *group, a *plan.Action, err error) {
	if !g.finalizing || err != nil || !a.Op.TakesDown() {
		return
	}
	if w := finishing[0]; l.free(g, w) {
		l.reserve(g, a.VM, w)
		return
	}
	first := slices.IndexFunc(l.waiting, func(w waiter) bool { return w.vm == "" })
	if first < 0 {
		first = len(l.waiting)
	}
	l.waiting = slices.Insert(l.waiting, first, waiter{g.ref.UID, a.VM})
}

// Over tells that an action's task should have ended, though that is not known yet: its slot is free, unless over is false, because the
// task has not ended or another one follows.
func (l *Loop) Over(uid types.UID, vm string, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[uid]
	if g == nil || g.paced[vm] == nil || g.stalled[vm].Reason != "" {
		return
	}
	if !over {
		l.pace.GoOn(g.paced[vm])
		return
	}
	l.pace.Over(g.paced[vm])
	l.next()
}

func (l *Loop) reserve(g *group, vm string, w pace.Work) {
	l.pace.Reserve(w)
	g.reserved[vm] = w
}

func (l *Loop) unreserve(g *group, vm string) {
	if w, is := g.reserved[vm]; is {
		l.pace.Unreserve(w)
		delete(g.reserved, vm)
	}
}

// claim ends what next and passOn began, because the group's turn has come: it puts the step first that a slot was passed on to, and
// nothing is reserved for that step any more. The slot of a member that has no next step is for those who wait, unless a single step is
// all that is left of the group. The caller holds l.mu.
func (l *Loop) claim(g *group, actions []plan.Action) {
	if g == nil {
		return
	}
	ended := false
	for vm := range g.reserved {
		if vm != "" && !slices.ContainsFunc(actions, func(a plan.Action) bool { return a.VM == vm }) {
			l.unreserve(g, vm)
			ended = true
		}
	}
	if ended && (len(actions) != 1 || len(g.running) > 0) {
		l.next()
	}
	l.unreserve(g, "")
	if i := slices.IndexFunc(actions, func(a plan.Action) bool { _, is := g.reserved[a.VM]; return is }); i >= 0 {
		l.unreserve(g, actions[i].VM)
		actions[0], actions[i] = actions[i], actions[0]
	}
}

// Started tells that vCenter has started an action's task, after it had queued it for so long. The numbers may be larger then.
func (l *Loop) Started(uid types.UID, vm string, queued time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.groups[uid]; g != nil && g.paced[vm] != nil {
		l.pace.Started(g.paced[vm], queued)
		l.next()
	}
}

// returned gives back the slot of an action that has ended. The caller holds l.mu.
func (l *Loop) returned(g *group, a *plan.Action, err error, took plan.Took, now time.Time) {
	if g.paced[a.VM] == nil {
		return
	}
	how := pace.Outcome{Queued: took.Queued, Ran: took.Ran, Failed: err != nil, Overload: took.Overload, Unanswered: took.Unanswered}
	shrunk := l.pace.End(g.paced[a.VM], now, how)
	delete(g.paced, a.VM)
	l.tellShrunk(shrunk, how.Trouble())
	if rest := l.pace.Rest(now); rest > 0 {
		l.queue.AddAfter("", rest) // no group's turn, but next comes after it
	}
}

// tellShrunk logs and counts numbers that have become smaller. The caller holds l.mu.
func (l *Loop) tellShrunk(shrunk []pace.Number, trouble pace.Trouble) {
	for i := range shrunk {
		n := &shrunk[i]
		l.metrics.reduced.WithLabelValues(string(n.Kind), string(trouble)).Inc()
		l.cfg.Log.Info().Int("most", n.Size).Str("reason", n.Why).Msg("fewer " + numberOf(n).Of + " run at once")
	}
}

// waitsFor returns the numbers that keep a group from its next steps. The caller holds l.mu.
func (l *Loop) waitsFor(g *group) (all []plan.SlotNumber) {
	for _, w := range g.waits {
		for _, n := range l.pace.Hinders(w) {
			if x := numberOf(&n); !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
	}
	return all
}

// numberOf is a number for reports.
func numberOf(n *pace.Number) plan.SlotNumber {
	of := map[pace.Kind]string{pace.Clones: "clones", pace.Power: "power operations", pace.Others: "other steps", "": "all steps"}[n.Kind]
	if n.Source != "" {
		of += " from " + n.Source
	}
	if n.Target != "" {
		of += " to " + n.Target
	}
	return plan.SlotNumber{Of: of, Now: n.Size, Most: n.Most, Running: n.Used, Reason: n.Why}
}

// Slots tells how many actions run, and how many may.
func (l *Loop) Slots() plan.Slots {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := plan.Slots{Most: l.cfg.Slots, Running: l.pace.Used(), Waiting: len(l.waitingGroups())}
	for _, n := range l.pace.Numbers() {
		s.Numbers = append(s.Numbers, numberOf(&n))
	}
	return s
}
