package loop

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// planned is the newest plan of a group, for GET /groups.
type planned struct {
	at        time.Time
	status    v1alpha1.VmGroupStatus
	verdicts  []plan.Verdict
	former    []string // templates
	finalized bool
	last      *plan.PlanReport // the last one with actions
}

// remember keeps a plan, unless a newer one is known: groups are planned concurrently.
func (g *group) remember(o *plan.Observed, r *plan.Result) {
	if o.Now.Before(g.planned.at) || r.Status.Phase == "" {
		return
	}
	g.planned.at, g.planned.status, g.planned.verdicts, g.planned.finalized = o.Now, r.Status, r.Verdicts, r.Finalized
	if o.State.Known {
		g.planned.former = o.FormerTemplates()
	}
	if r.Finalized {
		g.lease.call.Related = plan.Related{} // the group is remembered for a while, but its user data must not be
	}
	if len(r.Actions) > 0 {
		g.planned.last = &plan.PlanReport{At: reportTime(o.Now), Steps: plan.ReportSteps(r.Actions)}
	}
}

// historyMost is how many ended actions of a group are kept.
const historyMost = 50

// history is the last actions that ended, newest first. It is never changed.
type history []plan.ActionReport

// with returns the history with one more action that ended. One that failed as the newest of its kind did for that member becomes one with it.
func (h history) with(ended plan.ActionReport) history {
	at := slices.IndexFunc(h, func(r plan.ActionReport) bool { return r.Op == ended.Op && r.VM == ended.VM })
	if at >= 0 && ended.Message != "" && h[at].Result == ended.Result && h[at].Message == ended.Message {
		ended.Times, ended.First = max(h[at].Times, 1)+1, h[at].Time
		if h[at].Times > 0 {
			ended.First = h[at].First
		}
		h = slices.Concat(h[:at], h[at+1:])
	}
	return slices.Concat(history{ended}, h[:min(len(h), historyMost-1)])
}

// Groups reports the groups that are under lease or have something running, and those that were, as last known: until keepFor after their last
// call, and for as long as no call comes for any group. It plans nothing, and its reports share only immutable values with the groups.
func (l *Loop) Groups() []plan.Report {
	now := time.Now()
	l.mu.Lock()
	all := make([]plan.Report, 0, len(l.groups))

	silent := l.silent(now)
	for _, g := range l.groups {
		leased := now.Sub(g.lease.renewed) <= l.cfg.Lease && !g.planned.finalized
		known := g.planned.status.Phase != "" && !g.planned.finalized && !g.answers.finalized && g.unselected.since.IsZero()
		if leased || len(g.runs) > 0 || known {
			r := g.report(l.cfg.Lease, leased, now)
			r.LastKnown = !leased && silent
			if r.WaitsForSlot = len(g.turn.waits) > 0; r.WaitsForSlot {
				r.WaitsFor = l.waitsFor(g)
			}
			all = append(all, r)
		}
	}
	l.mu.Unlock()
	plan.SortReports(all)
	return all
}

// Calls returns when Metacontroller called last.
func (l *Loop) Calls() plan.Calls {
	l.mu.Lock()
	defer l.mu.Unlock()
	return plan.Calls{Began: reportTime(l.began), Last: reportTime(l.called), Silent: l.silent(time.Now())}
}

// silent reports whether no hook call has come for any group for so long that the last lease has ended. The caller holds mu.
func (l *Loop) silent(now time.Time) bool {
	last := l.called
	if last.IsZero() {
		last = l.began
	}
	return now.Sub(last) > l.cfg.Lease
}

// NextSteps returns the next steps for a group under lease, at most so many, as if each succeeded; none for a paused group.
func (l *Loop) NextSteps(uid types.UID, most int) plan.Outlook {
	now := time.Now()
	l.mu.Lock()
	g := l.groups[uid]
	if g == nil || now.Sub(g.lease.renewed) > l.cfg.Lease || g.lease.call.Group.Spec.Paused {
		l.mu.Unlock()
		return plan.Outlook{}
	}
	observed, owns, ref := g.observe(l.cfg, now), g.owns(&g.lease.call), g.ref
	l.mu.Unlock()
	if result := l.look(&observed, ref, owns); result.Refusal != nil {
		return plan.Outlook{}
	}
	return planner.ForecastUpTo(observed, most)
}

func (g *group) report(lease time.Duration, leased bool, now time.Time) plan.Report {
	s := &g.planned.status
	r := plan.Report{Namespace: g.ref.Namespace, Name: g.ref.Name, UID: g.ref.UID, Generation: g.lease.call.Group.Generation,
		Lease: leased, LastCall: reportTime(g.lease.renewed), LeaseEnds: reportTime(g.lease.renewed.Add(lease)), Finalizing: g.lease.finalizing,
		Phase: s.Phase, Message: s.LastMessage, Since: plan.PhaseSince(s), Spec: plan.ReportSpec(g.lease.call.Group),
		DesiredReplicas: s.DesiredReplicas, UpdatedReplicas: s.UpdatedReplicas, Update: s.Update, FormerTemplates: g.planned.former,
		Members: s.Members, Standby: s.Standby, Quarantined: s.Quarantined, Disks: s.Disks, Verdicts: g.planned.verdicts, Pending: g.pendingReports(now),
		LastPlan: g.planned.last, Actions: g.history}
	if r.Members == nil {
		r.Members = []v1alpha1.Member{}
	}
	if before, said := plan.PhaseBefore(s); before != "" && !r.Finalizing {
		if r.PhaseBefore, r.Message = before, said; before != v1alpha1.PhaseError {
			r.Since = time.Time{} // that of the outage
		}
	}
	r.Faults = plan.ReportFaults(s, r.Pending)
	return r
}

// pendingReports reports what is running and what backs off, by member.
func (g *group) pendingReports(now time.Time) []plan.PendingReport {
	all := make([]plan.PendingReport, 0, len(g.runs)+len(g.failures.byVM))
	for _, vm := range g.runs.inOrder() {
		r, f := g.runs[vm], g.failures.byVM[vm]
		if f.action.Op != r.action.Op {
			f.fault = plan.Fault{}
		}
		if r.stalled != nil {
			f.fault = *r.stalled
		}
		p := plan.ReportPending(&r.action, plan.Running, f.fault)
		p.Since = reportTime(r.began)
		all = append(all, p)
	}
	for _, vm := range slices.Sorted(maps.Keys(g.failures.byVM)) {
		if g.runs[vm] != nil {
			continue
		}
		f := g.failures.byVM[vm]
		p := plan.ReportPending(&f.action, plan.Due, f.fault)
		if !f.cause.permits(&f, now) {
			p.State = plan.BackingOff
			if due := f.cause.due(&f); due.After(now) {
				p.RetryAfter = reportTime(due)
			}
		}
		all = append(all, p)
	}
	return all
}

// reportTime returns a time for a report: in UTC and whole seconds.
func reportTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Second)
}

// relatedFor returns the user data for a previewed call: that of the group's newest hook call, if the call has no related
// objects itself (a manifest never does) and names the same ones. The caller holds l.mu.
func (l *Loop) relatedFor(call *plan.Call) plan.Related {
	wanted, _ := plan.UserDataOf(call.Group)
	if !call.Related.NotGiven() {
		return call.Related
	}
	for _, g := range l.groups {
		same := g.ref.UID == call.Group.UID || call.Group.UID == noUID && g.ref.Namespace == call.Group.Namespace && g.ref.Name == call.Group.Name
		if !same || g.planned.finalized {
			continue
		}
		if has, _ := plan.UserDataOf(g.lease.call.Group); has == wanted {
			return g.lease.call.Related
		}
	}
	return call.Related
}
