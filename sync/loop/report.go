package loop

import (
	"maps"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// planned is what the newest plan of a group said, for those who ask what the server knows.
type planned struct {
	at        time.Time
	status    v1alpha1.VmGroupStatus
	finalized bool
	last      *plan.PlanReport // the last that wanted anything
}

// remember keeps a plan, unless a newer one is known: plans are made side by side.
func (g *group) remember(o *plan.Observed, r *plan.Result) {
	if o.Now.Before(g.planned.at) || r.Status.Phase == "" {
		return
	}
	g.planned.at, g.planned.status, g.planned.finalized = o.Now, r.Status, r.Finalized
	if r.Finalized {
		g.call.Related = plan.Related{} // the group is remembered for a while, and its user data need not be
	}
	if len(r.Actions) > 0 {
		g.planned.last = &plan.PlanReport{At: told(o.Now), Steps: plan.ReportSteps(r.Actions)}
	}
}

// historyMost is how many ended actions of a group are kept.
const historyMost = 50

// note keeps an action that ended.
func (g *group) note(ended plan.ActionReport) {
	if len(g.history) == historyMost {
		g.history = slices.Delete(g.history, 0, 1)
	}
	g.history = append(g.history, ended)
}

// Groups tells what is known of the groups that may be acted for, or that something is under way for. It plans nothing,
// and shares with the groups only what is never changed.
func (l *Loop) Groups() []plan.Report {
	now := time.Now()
	l.mu.Lock()
	all := make([]plan.Report, 0, len(l.groups))
	for _, g := range l.groups {
		leased := now.Sub(g.renewed) <= l.cfg.Lease && !g.planned.finalized
		if leased || len(g.running) > 0 {
			all = append(all, g.report(l.cfg.Lease, leased, now))
		}
	}
	l.mu.Unlock()
	plan.SortReports(all)
	return all
}

func (g *group) report(lease time.Duration, leased bool, now time.Time) plan.Report {
	s := &g.planned.status
	r := plan.Report{Namespace: g.ref.Namespace, Name: g.ref.Name, UID: g.ref.UID, Generation: g.call.Group.Generation,
		Lease: leased, LastCall: told(g.renewed), LeaseEnds: told(g.renewed.Add(lease)), Finalizing: g.finalizing,
		Phase: s.Phase, Message: s.LastMessage, Members: s.Members, Pending: g.pendingReports(now)}
	if r.Members == nil {
		r.Members = []v1alpha1.Member{}
	}
	r.Faults, r.LastPlan, r.Actions = plan.ReportFaults(s, r.Pending), g.planned.last, slices.Clone(g.history)
	slices.Reverse(r.Actions)
	return r
}

// pendingReports tells what is under way and what backs off, by member.
func (g *group) pendingReports(now time.Time) []plan.PendingReport {
	all := make([]plan.PendingReport, 0, len(g.running)+len(g.failures))
	for _, vm := range slices.Sorted(maps.Keys(g.running)) {
		a, f := g.running[vm], g.failures[vm]
		if f.action.Op != a.Op {
			f.fault = plan.Fault{}
		}
		if fault, stands := g.stalled[vm]; stands {
			f.fault = fault
		}
		p := plan.ReportPending(&a, plan.Running, f.fault)
		p.Since = told(g.began[vm])
		all = append(all, p)
	}
	for _, vm := range slices.Sorted(maps.Keys(g.failures)) {
		if _, again := g.running[vm]; again {
			continue
		}
		f := g.failures[vm]
		p := plan.ReportPending(&f.action, plan.Due, f.fault)
		if now.Before(f.until) {
			p.State, p.RetryAfter = plan.BackingOff, told(f.until)
		}
		all = append(all, p)
	}
	return all
}

// told is a time as it is told: in UTC and whole seconds.
func told(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// relatedFor gives a call that is previewed the user data of the newest hook call of that group, if it brings no related
// objects itself and names the same ones: a manifest never does. l.mu is held.
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
		if has, _ := plan.UserDataOf(g.call.Group); has == wanted {
			return g.call.Related
		}
	}
	return call.Related
}
