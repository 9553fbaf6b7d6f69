package loop

import (
	"errors"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// failures are why the group's steps failed, and at what pace they are tried again.
type failures struct {
	byVM map[string]failure
	// limit bounds the actions at once after a failure: 1, then doubling with every success (slow start).
	// Zero: no bound.
	limit int
	// lostMany: many members were lost at once, and the limit was reduced for that.
	lostMany   bool
	crashLoops map[string]crashLoop // by member
}

// failure is why an action's last try failed, and until when the next one waits.
type failure struct {
	action plan.Action
	fault  plan.Fault
	tries  int
	took   time.Duration // how long the try ran
	until  time.Time
	tried  plan.Op // what failed before for the same VM, and may have taken it down
}

// before returns the op that failed earlier for the action's VM, and may have taken the VM down. That stays uncertain until something succeeds.
func (f *failure) before(a plan.Action) plan.Op {
	switch {
	case f.action.MoRef != a.MoRef:
		return ""
	case f.action.Op != a.Op && f.action.Op.TakesDown() && !f.fault.Untried:
		return f.action.Op
	}
	return f.tried
}

// How long a failed action waits: doubling from the first to the last, by the kind of its fault.
const (
	waitFirst, waitLast           = time.Second, 2 * time.Minute // may pass by itself
	operatorFirst, operatorLast   = 5 * time.Second, time.Minute // an operator has to act; a retry is cheap
	transientFirst, transientLast = time.Second, 4 * time.Second // passes by itself soon

	// watchedLast is operatorLast for one of those that failed the same way, for its first watchedTries: an operator who removes the cause
	// sees within ten seconds that it is gone. The others follow when that one succeeds (retryLike).
	watchedLast  = 4 * time.Second
	watchedTries = 120
)

// maxLimit is where slow start ends: from there on, only the slots bound the actions at once.
const maxLimit = 64

// failed records why an action failed after that time, and returns when to try it again.
func (x *failures) failed(a plan.Action, fault plan.Fault, took time.Duration, now time.Time, jitter func(most time.Duration) time.Duration) (retry time.Duration) {
	was := x.byVM[a.VM]
	f := failure{action: a, fault: fault, tries: was.tries + 1, took: took, tried: was.before(a)}
	if was.action.Op != a.Op {
		f.tries = 1
	} else if was.action.MoRef == a.MoRef && !was.fault.Untried {
		f.fault.Untried = false // the earlier try may have been carried out
	}
	first, last := waitFirst, waitLast
	switch {
	case f.fault.NeedsOperator:
		first, last = operatorFirst, operatorLast
		if f.tries <= watchedTries && !x.othersTry(a, f.fault, now.Add(watchedLast)) {
			last = watchedLast
		}
	case f.fault.Transient:
		first, last = transientFirst, transientLast
	}
	retry = min(first<<min(f.tries-1, 20), last)
	retry += jitter(retry/5 + 1)
	f.until = now.Add(retry)
	x.byVM[a.VM] = f
	x.limit = 1
	return retry
}

// succeeded forgets why an action for that VM failed. Those that failed the same way are retried at once.
func (x *failures) succeeded(vm string, now time.Time) {
	x.retryLike(vm, now)
	delete(x.byVM, vm)
	if x.limit *= 2; x.limit > maxLimit {
		x.limit = 0
	}
}

// clear makes all failed actions due, because an operator has acted.
func (x *failures) clear() {
	clear(x.byVM)
	x.limit = 0
}

// forgetUnwanted forgets failures of actions that no plan wants any more, but only a while after their retry was due: until then their effect
// is uncertain, and the planner is careful with such a member.
func (x *failures) forgetUnwanted(r *plan.Result, running runs, now time.Time) {
	for vm, f := range x.byVM {
		if running[vm] != nil || now.Sub(f.until) < unwantedAfter || r.Wants(vm, f.action.Op) {
			continue
		}
		delete(x.byVM, vm)
	}
}

const unwantedAfter = time.Minute

// slowStart makes the group start slowly when many of its members were lost at once, because the new ones may be lost for the same reason.
func (x *failures) slowStart(lost bool) {
	if lost && !x.lostMany && x.limit == 0 {
		x.limit = 1
	}
	x.lostMany = lost
}

// faultOf returns why an action failed; the zero Fault if it did not.
func faultOf(err error) plan.Fault {
	if err == nil {
		return plan.Fault{}
	}
	fault := plan.Fault{Reason: "Internal", Message: err.Error()}
	var typed interface{ PlanFault() plan.Fault }
	if errors.As(err, &typed) {
		fault = typed.PlanFault()
	}
	fault.Message = plan.Bounded(fault.Message, plan.TextMost)
	return fault
}
