package loop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A change that succeeds and doesn't stay is planned again at once: a DRS rule that vCenter drops, or a tag that another tool takes off each
// time. After undoneTimes it counts as failed, with the pace of a failure that an operator must end: one for all members of the group, and for DRS
// rules, one for all groups in the pool, because they change the same cluster. Once one change has stayed, the others follow.

// undone is a change that was made, and had to be made again.
type undone struct {
	change      string // what was changed, and of what
	began, last time.Time
	lastBegan   time.Time // when the step of the last time began
	times       int       // made, the first included
	by          string    // who undoes it, for users; empty if that isn't known
}

const (
	undoneTimes = 3
	// undoneSoon is how long after a change the same change, planned again, still counts as undone, until it has counted undoneTimes.
	undoneSoon = 10 * time.Minute
	// undoneUnseen is how long a change that was undone before has to stay: vCenter's clusters are read once a minute.
	undoneUnseen = 65 * time.Second
)

// changeOf names what a step changes; empty for steps that other events make necessary again. state is what the step was planned from.
func changeOf(a *plan.Action, state *plan.VCenterState) string {
	if !a.Op.Lasts() {
		return ""
	}
	of := []string{string(a.Op), a.MoRef, fmt.Sprint(a.Generation), a.Reason}
	if a.Op == plan.SetRules { // each new member needs it again
		for i := range state.VMs {
			of = append(of, state.VMs[i].MoRef)
		}
		slices.Sort(of)
	}
	return strings.Join(of, " ")
}

// undoneSince returns when the last step that made a change began, if making the change now would count as a failure; else zero.
func (x *failures) undoneSince(vm, change string, now time.Time) time.Time {
	u := x.undone[vm]
	if change == "" || !u.continues(change, now) || u.times < undoneTimes-1 {
		return time.Time{}
	}
	return u.lastBegan
}

// continues reports whether a change that is made now was undone before.
func (u *undone) continues(change string, now time.Time) bool {
	return u.change == change && (u.times >= undoneTimes || now.Sub(u.last) <= undoneSoon)
}

// changed counts a change that was made, and returns in what time it can be made again: at once, unless it was undone again and again.
func (x *failures) changed(g *v1alpha1.VmGroup, r *run, now time.Time) (retry time.Duration) {
	a := r.action
	u := x.undone[a.Key]
	if !u.continues(r.change, now) || r.cause != nil && r.cause.stays {
		u = undone{change: r.change, began: now}
	}
	u.last, u.lastBegan, u.times, u.by = now, r.began, u.times+1, cmp.Or(r.undoers, u.by)
	x.undone[a.Key] = u
	if u.times < undoneTimes {
		return 0
	}
	fault := plan.Fault{Reason: plan.ReasonChangeUndone, NeedsOperator: true, Message: plan.Bounded(fmt.Sprintf(
		"vCenter does not keep what the step %s changes: %s. Stop what changes it back, or change the spec", a.Op, cmp.Or(u.by, "look in the events of the object for the user or tool that changes it back")), plan.TextMost)}
	key := causeKey{op: a.Op, reason: fault.Reason, group: x.group}
	if a.Op == plan.SetRules {
		key.group, key.on = "", (&plan.Fault{Scope: plan.OnPool}).ScopeKey(g, &a)
	}
	c := x.causes.join(key, now)
	c.stays = false
	x.put(failure{action: a, fault: fault, took: neverPast}, c)
	retry = pace(&fault, u.times, now.Sub(u.began))
	c.rest(now.Add(retry))
	return retry
}

// neverPast is longer than any step takes: a change that takes long may still be undone.
const neverPast = 24 * time.Hour

// looksWhetherStays reports whether a change that was undone before is old enough to see whether it has stayed. Its step then counts as due: a
// plan has the step only if the change was undone again. The cause still decides when the step runs.
func (x *failures) looksWhetherStays(vm string, now time.Time) bool {
	return x.byVM[vm].fault.Reason == plan.ReasonChangeUndone && now.Sub(x.undone[vm].last) >= undoneUnseen
}

// stayed forgets that the group's changes of a kind were undone, because one of them has stayed. It makes those of other groups due.
func (x *failures) stayed(c *cause, now time.Time) {
	c.stays = true
	c.succeeded(now)
	for vm, f := range x.byVM {
		if f.cause == c {
			x.drop(vm)
			delete(x.undone, vm)
		}
	}
}
