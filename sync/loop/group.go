package loop

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// group is what the loop remembers of one VmGroup between its calls: a type for each kind of thing. Loop.mu guards it.
type group struct {
	ref        plan.Ref
	lease      lease
	schedule   schedule
	edits      edits
	folders    folders
	turn       turn
	runs       runs
	failures   failures
	answers    answers
	planned    planned
	history    history
	events     events
	unselected unselected
	healed     healed
}

func newGroup(call plan.Call) *group {
	return &group{ref: call.Ref(), edits: newEdits(), runs: runs{}, failures: failures{group: call.Group.UID, causes: causes{}, byVM: map[string]failure{}, crashLoops: map[string]crashLoop{}, undone: map[string]undone{}},
		answers: answers{awaited: map[plan.ChildKey]time.Time{}}}
}

func (g *group) copy() *group {
	c := *g
	return &c
}

// renew takes a call: it renews the lease, unless the call is stale. A new generation, or other user data, means that an operator has acted,
// so all failed actions are retried at once.
func (g *group) renew(call plan.Call, now time.Time) (taken bool) {
	if call.Unselected() || g.lease.outdates(&call) {
		return false
	}
	g.selected()
	g.sawAnswer(&call)
	g.sawWrites(&call, now)
	begins := g.lease.begins(&call)
	differs := g.lease.differs(&call)
	if begins || differs {
		g.failures.clear(!begins && g.lease.asks(&call))
	}
	if differs {
		g.edits.edited(now)
	}
	g.lease.renew(call, now)
	g.folders.blind = true // until vCenter is observed
	if begins {
		g.runs.outdate()
	}
	return true
}

// restored reports whether a call, and those before it, show that etcd was restored from a backup, and nothing of the group runs or is about to.
func (g *group) restored(call *plan.Call, now time.Time, lease time.Duration) bool {
	return !call.Unselected() && g.lease.outdates(call) && g.lease.older.restored(call, now, lease) && len(g.runs) == 0 && g.turn.reserved == nil
}

// preview applies a call to a copy that is thrown away.
func (g *group) preview(call plan.Call, now time.Time) {
	if g.lease.finalizing && call.Group.DeletionTimestamp.IsZero() { // a manifest: the group is being deleted nevertheless
		deleted := *call.Group
		deleted.DeletionTimestamp = g.lease.call.Group.DeletionTimestamp
		call.Group = &deleted
	}
	if call.Group.Spec.Service != nil && len(call.Children) == 0 { // who only looks doesn't know them; that the Service is missing is the next call's to find
		call.Children = maps.Clone(g.lease.call.Children)
		if call.Children == nil {
			call.Children = map[plan.ChildKey]plan.ObservedChild{}
		}
		key := plan.ChildKey{Kind: plan.KindService, Name: call.Group.Name}
		call.Children[key] = g.lease.call.Children[key]
	}
	if !g.lease.finalizing {
		if g.lease.outdates(&call) {
			g.lease.newestStamp = max(g.lease.newestStamp, g.lease.call.Group.Generation)
		}
		g.lease.older = older{}
	}
	g.lease.call, g.lease.renewed, g.lease.claims = call, now, plan.ClaimsOf(call.Group)
	g.edits.waits, g.edits.created = false, false
	if call.Finalizing && !g.lease.finalizing {
		g.lease.finalizing, g.lease.finalizingSince = true, now
	}
}

// observe returns the group's part of an observation: everything but vCenter's state, which must be read afterwards
// (read your writes: what is no longer pending is already visible).
func (g *group) observe(cfg Config, now time.Time) plan.Observed {
	o := plan.Observed{
		Group: g.lease.call.Group, Finalizing: g.lease.finalizing, Called: g.lease.renewed, Blind: g.folders.blind, FinalizingSince: g.lease.finalizingSince,
		FolderSeen: g.folders.seen, OwnFolders: slices.Concat(g.folders.own, g.folders.ofMembers), NewestStamp: g.lease.newestStamp,
		Children: g.lease.call.Children, Related: g.lease.call.Related, ChildrenWantedSince: maps.Clone(g.answers.awaited), Emptied: g.lease.emptied,
		Lease: cfg.Lease, Resync: cfg.Resync, ChildLabels: cfg.ChildLabels, Now: now, Cascade: g.lease.call.Cascade, NewReplace: g.lease.newReplace,
	}
	if g.edits.waits && !g.lease.finalizing {
		o.EditedTooOften, o.NotBegun = g.edits.since, g.edits.created
	}
	if !g.lease.older.since.IsZero() {
		last := g.lease.older.last
		o.Older = &last
	}
	if g.lease.orphaned {
		o.Cascade = metav1.DeletePropagationOrphan
	}
	if len(o.Group.Status.Conditions) == 0 && len(g.answers.status.Conditions) > 0 {
		withStatus := *o.Group // a stale parent, or one sent by hand, has no status: the last answer's is used
		withStatus.Status = g.answers.status
		o.Group = &withStatus
	}
	if noticed := g.planned.status; noticed.Phase != "" {
		o.LastPlannedStatus = &noticed
	}
	if len(g.runs)+len(g.failures.byVM) > 0 {
		o.Pending = make(map[string]plan.Pending, len(g.runs)+len(g.failures.byVM))
	}
	past := g.failures.past(g.runs, now)
	for vm, f := range g.failures.byVM {
		p := plan.Pending{Op: f.action.Op, Ordinal: f.action.Ordinal, MoRef: f.action.MoRef, State: plan.BackingOff, Fault: f.fault, MarkReason: plan.ArgsOf[plan.MarkArgs](f.action.Args).Reason, Standby: f.action.Standby()}
		if past[f.cause] {
			p.State, p.Fault = plan.Due, plan.Fault{}
		} else if f.cause.permits(&f, now) || g.failures.looksWhetherStays(vm, now) {
			p.State = plan.Due
		}
		p.Tried = f.tried
		o.Pending[vm] = p
	}
	for vm, r := range g.runs {
		a := r.action
		p := plan.Pending{Op: a.Op, Ordinal: a.Ordinal, MoRef: a.MoRef, State: plan.Running, MarkReason: plan.ArgsOf[plan.MarkArgs](a.Args).Reason, Standby: a.Standby()}
		f := g.failures.byVM[vm]
		if f.action.Op == a.Op && !past[f.cause] {
			p.Fault = f.fault
		}
		p.Tried = f.before(a)
		if a.Details() != nil {
			p.Home = a.Details().Home
		}
		o.Pending[vm] = p
	}
	return o
}

// begin notes that a step runs.
func (g *group) begin(a plan.Action, now time.Time) *run {
	r := g.runs.begin(a, now)
	f, has := g.failures.of(g.lease.call.Group, &a)
	if !has {
		f, has = g.failures.askedFor(&a)
	}
	if has {
		r.retry(&f)
	}
	return r
}

// ended records the end of an action. It returns the cause of which a try has ended, so that others that wait for it are planned again; nil for
// none; and in what time the next try is due.
func (g *group) ended(a plan.Action, err error, now time.Time, jitter func(most time.Duration) time.Duration) (of *cause, retry time.Duration) {
	var r run
	if g.runs[a.Key] != nil {
		r = *g.runs[a.Key]
	}
	of = r.cause
	took := now.Sub(g.runs.end(a.Key))
	defer delete(g.failures.asked, a.Key)
	if err != nil {
		return g.failures.failed(g.lease.call.Group, a, faultOf(err), took, now, jitter)
	}
	if of != nil && (of.stays || of.key.reason != plan.ReasonChangeUndone) { // whether a change stays shows later
		of.succeeded(now)
	}
	g.failures.succeeded(a.Key)
	if r.change != "" {
		return of, g.failures.changed(g.lease.call.Group, &r, now)
	}
	switch a.Op {
	case plan.ConfirmGone: // it counts only for the time that it was started for
		since := plan.ArgsOf[plan.ConfirmArgs](a.Args).Since
		g.lease.emptied = g.lease.emptied || since.Equal(g.lease.finalizingSince)
		g.unselected.emptied = g.unselected.emptied || since.Equal(g.unselected.since)
	case plan.CreateFolder: // the folder exists, though the inventory may be unknown by now
		g.folders.seen, g.folders.made = now, true
	case plan.PowerOn:
		return of, g.failures.poweredOn(a, now)
	case plan.ShutdownGuest, plan.PowerOff:
		delete(g.failures.crashLoops, a.Key) // it did not halt by itself
	}
	return of, 0
}

// startable returns the actions that can start now, within the group's limit, and when the causes of their last failures permit it.
func (g *group) startable(actions []plan.Action, now time.Time) (can []plan.Action) {
	if passed := g.runs.passed(now); !g.failures.atOnce.permits(g.runs.atWork()-passed, passed) {
		return nil
	}
	for i := range actions {
		if g.failures.permits(g.lease.call.Group, &actions[i], now) {
			can = append(can, actions[i])
		}
	}
	return can
}

// saw remembers the observed facts that must outlast their objects.
func (g *group) saw(o *plan.Observed) {
	g.folders.saw(o, g.lease.finalizing && !g.lease.emptied)
	g.lease.saw(o)
}

// owns reports whether a call proves that the folder at the group's path belongs to it. Until a finalize call is
// answered with finalized: true, the group exists. (A finalize may be stale, and reach a replica that does not know that the group has
// ended: for a group that had another folder before, it proves nothing.)
func (g *group) owns(call *plan.Call) bool {
	return !call.Finalizing || !g.answers.finalized && len(g.folders.own) == 0
}
