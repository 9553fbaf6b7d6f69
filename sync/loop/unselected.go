package loop

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// unselected records the finalize calls for a group that is not being deleted: its CompositeController no
// longer selects it. They renew no lease, and end none: another CompositeController may call for the same group.
type unselected struct {
	since, last time.Time     // the first of these calls with none of another kind between them, and the newest
	confirm     []plan.Action // ConfirmGone, if the newest plan has it
	emptied     bool          // it succeeded, and began after all leases were over
}

// retryStale is when Metacontroller should call again after a request that was older than the deletion.
const retryStale = 5 * time.Second

// called records such a call. After a gap the time restarts: the group may have been selected during the gap, and another
// replica called for it. (In a shorter gap, too: then a clone of that replica may be left behind.)
func (u *unselected) called(now time.Time, lease time.Duration) {
	if u.since.IsZero() || now.Sub(u.last) > lease/3 {
		*u = unselected{since: now}
	}
	u.last = now
}

// selected records a call of another kind: a CompositeController selects the group, or it is being deleted.
func (g *group) selected() {
	if !g.unselected.since.IsZero() {
		g.unselected = unselected{}
		g.failures.drop(plan.ConfirmKey)
	}
}

// heard returns when the newest call of any kind came.
func (g *group) heard() time.Time {
	if g.unselected.last.After(g.lease.renewed) {
		return g.unselected.last
	}
	return g.lease.renewed
}

// unselected answers a finalize for a group that is not being deleted, from memory. Nothing in it becomes the group's
// desired state.
func (l *Loop) unselected(call plan.Call) plan.Result {
	now := time.Now()
	l.mu.Lock()
	l.heard(now)
	l.forget(now)
	g := l.groups[call.Group.UID]
	if g == nil {
		g = l.newGroup(call)
		g.lease.call = plan.Call{Group: call.Group}
		l.groups[call.Group.UID] = g
	}
	if g.lease.finalizing {
		l.mu.Unlock()
		return plan.Result{Refusal: &plan.Refusal{Message: "the group is being deleted; this request is older than its deletion", Retry: retryStale}}
	}
	stale := l.checkSuspension(now)
	g.unselected.called(now, l.cfg.Lease)
	if stale { // Metacontroller may have given it up long ago: the time starts with the next call
		g.unselected = unselected{since: now, last: now}
	}
	observed := g.observe(l.cfg, now)
	observed.Group, observed.Children = call.Group, call.Children
	observed.Finalizing, observed.FinalizingSince, observed.Emptied = true, g.unselected.since, g.unselected.emptied
	l.mu.Unlock()

	result := l.plan(&observed, call.Ref(), false)

	l.mu.Lock()
	defer l.mu.Unlock()
	if g.unselected.confirm = result.Actions; len(result.Actions) > 0 {
		l.queue.Add(call.Group.UID)
	}
	if result.Finalized { // once only: this knowledge does not count for another time
		g.unselected = unselected{last: now}
		l.emptied = !l.isAnotherShown(g)
	}
	waitsFor := ""
	if result.Refusal != nil {
		waitsFor = result.Refusal.Message
	}
	if line := "unselected " + waitsFor; line != g.answers.lastLine {
		g.answers.lastLine = line
		l.cfg.Log.Info().Stringer("group", g.ref).Str("waitsFor", waitsFor).Bool("letGo", result.Finalized).
			Msg("no CompositeController selects the group any more")
	}
	return result
}

// confirmUnselected starts the fresh read that a group needs before it is let go. It changes nothing, so it needs no lease.
// The caller holds l.mu.
func (l *Loop) confirmUnselected(ctx context.Context, g *group, now time.Time) {
	if g == nil || len(g.unselected.confirm) == 0 || len(g.runs) > 0 || now.Sub(g.unselected.last) > l.cfg.Lease || ctx.Err() != nil {
		return
	}
	confirm := g.unselected.confirm[0]
	work := workOf(&confirm, &plan.VCenterState{})
	if !l.free(g, work) {
		return
	}
	g.unselected.confirm = nil
	l.start(ctx, g, confirm, work, "")
}

// confirming reports whether that read is all that runs for a group. The caller holds l.mu.
func (l *Loop) confirming(uid types.UID) bool {
	g := l.groups[uid]
	return g != nil && len(g.runs) == 1 && g.runs.op(plan.ConfirmKey) == plan.ConfirmGone && !g.unselected.since.IsZero()
}
