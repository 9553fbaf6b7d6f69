package loop

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A change that succeeds and doesn't stay is planned again at once: a DRS rule that vCenter drops, or a tag that another tool takes off each
// time. After undoneTimes it counts as failed, with the pace of a failure that an operator must end.

// undone is a change that was made, and had to be made again.
type undone struct {
	change      string // what was changed, and of what
	began, last time.Time
	times       int // made, the first included
}

const (
	undoneTimes = 3
	// undoneSoon is within what time after a change the same one shows that it did not stay. It is well above lastingPace.
	undoneSoon = 10 * time.Minute
	// undoneUnseen is how long a change that was undone before has to stay: vCenter's clusters are read once a minute.
	undoneUnseen = 65 * time.Second
)

// changeOf names what a step changes; empty for a step that others than its own effect can make necessary again. state is what it was planned
// from.
func changeOf(a *plan.Action, state *plan.VCenterState) string {
	of := []string{string(a.Op), a.MoRef, fmt.Sprint(a.Generation), a.Reason}
	switch a.Op {
	case plan.Prepare, plan.Reconfigure, plan.SetDisks, plan.Rename, plan.Move:
	case plan.SetRules: // each new member needs it again
		for i := range state.VMs {
			of = append(of, state.VMs[i].MoRef)
		}
		slices.Sort(of)
	default:
		return ""
	}
	return strings.Join(of, " ")
}

// changed counts a change that was made, and returns when it can be made again: at once, unless it was undone again and again.
func (x *failures) changed(a plan.Action, change string, now time.Time) (retry time.Duration) {
	u := x.undone[a.VM]
	if u.change != change || now.Sub(u.last) > undoneSoon {
		u = undone{change: change, began: now}
	}
	u.last, u.times = now, u.times+1
	x.undone[a.VM] = u
	if u.times < undoneTimes {
		return 0
	}
	fault := plan.Fault{Reason: plan.ReasonChangeUndone, NeedsOperator: true, Message: fmt.Sprintf(
		"vCenter does not keep what the step %s changes: see in vCenter's events which user or tool changes it back, and stop that, or change the spec", a.Op)}
	retry = pace(&fault, u.times, now.Sub(u.began))
	c := x.causes.join(causeKey{op: a.Op, reason: fault.Reason, group: x.group, vm: a.VM}, now)
	c.until = now.Add(retry)
	x.put(failure{action: a, fault: fault}, c)
	return retry
}
