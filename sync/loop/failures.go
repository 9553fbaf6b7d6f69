package loop

import (
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// failures are why the group's steps failed. At what pace they are tried again, their causes say.
type failures struct {
	group  types.UID
	causes causes // of all groups
	byVM   map[string]failure
	asked  map[string]failure // those whose next try an operator asked for, without another change
	// atOnce bounds the group's actions.
	atOnce slowStart
	// lostMany: many members were lost at once, so that the group started slowly.
	lostMany   bool
	crashLoops map[string]crashLoop // by member
	undone     map[string]undone    // by Action.Key
}

// failure is why an action's last try failed.
type failure struct {
	action plan.Action
	fault  plan.Fault
	cause  *cause
	round  int           // of the cause, in which it was tried last
	took   time.Duration // how long the try ran
	tried  plan.Op       // what failed before for the same VM, and may have taken it down
	// unwanted is since when no plan has wanted it, although it could be tried again; zero if the last one did.
	unwanted time.Time
}

// before returns the op that failed earlier for the action's VM, and may have taken the VM down. Only a success makes that certain.
func (f *failure) before(a plan.Action) plan.Op {
	switch {
	case f.action.MoRef != a.MoRef:
		return ""
	case f.action.Op != a.Op && f.action.Op.TakesDown() && !f.fault.Untried:
		return f.action.Op
	}
	return f.tried
}

// failed records why an action for a group failed after that time, and returns its cause, and in what time the next try is due.
func (x *failures) failed(g *v1alpha1.VmGroup, a plan.Action, fault plan.Fault, took time.Duration, now time.Time, jitter func(most time.Duration) time.Duration) (c *cause, retry time.Duration) {
	was := x.byVM[a.Key]
	f := failure{action: a, fault: fault, took: took, tried: was.before(a)}
	if was.action.Op == a.Op && was.action.MoRef == a.MoRef && was.cause != nil {
		f.fault.Untried = f.fault.Untried && was.fault.Untried // the earlier try may have been carried out
	}
	c = x.causes.join(causeKeyOf(g, &a, &fault), now)
	x.put(f, c)
	x.atOnce.begin()
	return c, c.failed(&fault, now, jitter)
}

// put lets a failure wait for a cause, in which it has had its turn.
func (x *failures) put(f failure, c *cause) {
	c.waiting[x.group]++ // before it leaves the one before, which may be the same
	x.drop(f.action.Key)
	f.cause, f.round = c, c.round
	c.had++
	x.byVM[f.action.Key] = f
}

// drop forgets a failure.
func (x *failures) drop(vm string) {
	if f, failed := x.byVM[vm]; failed {
		x.causes.leave(x.group, &f)
		delete(x.byVM, vm)
	}
}

// succeeded forgets why an action for that VM failed.
func (x *failures) succeeded(vm string) {
	x.drop(vm)
	x.atOnce.succeeded()
}

// clear makes all failed actions due, because an operator has acted: one of them, and then more if it succeeds. They are this group's own;
// others wait as before. asked: the operator only asked for a try, so that its success shows that the cause is past for the others, too.
func (x *failures) clear(asked bool) {
	if x.asked = nil; asked {
		x.asked = maps.Clone(x.byVM)
	}
	x.atOnce = 0
	for vm, f := range x.byVM {
		if f.fault.NeedsOperator {
			x.atOnce.begin()
		}
		x.drop(vm)
	}
}

// of returns the failure whose cause a try of an action has, too; false if there is none: its own, or that of another of the group's steps
// that depends on the same.
func (x *failures) of(g *v1alpha1.VmGroup, a *plan.Action) (f failure, has bool) {
	if f, has = x.byVM[a.Key]; has && f.action.Op == a.Op && f.action.MoRef == a.MoRef {
		return f, true
	}
	looked := map[*cause]bool{}
	for _, f := range x.byVM {
		if f.action.Op != a.Op || f.cause.key.on == "" || looked[f.cause] {
			continue
		}
		if looked[f.cause] = true; f.fault.ScopeKey(g, a) == f.cause.key.on {
			f.round = 0 // this one has not had its turn
			return f, true
		}
	}
	return failure{}, false
}

// permits reports whether an action can start, as far as the cause of a failure goes.
func (x *failures) permits(g *v1alpha1.VmGroup, a *plan.Action, now time.Time) bool {
	f, has := x.of(g, a)
	return !has || f.cause.permits(&f, now)
}

// untilTurn is in what time one of the failures can be tried; zero if that depends on others' tries.
func (x *failures) untilTurn(now time.Time) (wait time.Duration) {
	for _, f := range x.byVM {
		if left := f.cause.due(&f).Sub(now); left > 0 && len(f.cause.running) == 0 && (wait == 0 || left < wait) {
			wait = left
		}
	}
	return wait
}

// past returns the causes that no longer block: a step that failed so is running again, and for longer than when it
// failed. They are no longer reported for any member, and the other members' retries are due.
func (x *failures) past(running runs, now time.Time) map[*cause]bool {
	var past map[*cause]bool
	for vm, r := range running {
		f, failed := x.byVM[vm]
		if !failed || f.action.Op != r.action.Op || !now.After(r.passes) {
			continue
		}
		if past == nil {
			past = map[*cause]bool{}
		}
		past[f.cause] = true
	}
	return past
}

// settling is how much longer than the last try a new one has to run before that failure counts as past.
const settling = 2 * time.Second

// forgetUnwanted forgets failures of actions that no plan wants any more, but only a while after their retry was due: until then their effect
// is uncertain, and the planner is careful with such a member.
func (x *failures) forgetUnwanted(o *plan.Observed, r *plan.Result, running runs, now time.Time) {
	for vm, f := range x.byVM {
		switch {
		case running[vm] != nil || r.Wants(vm, f.action.Op):
			f.unwanted = time.Time{}
		case o.Pending[vm].State != plan.Due: // whether it is wanted shows when it can be tried
			continue
		case f.fault.Reason == plan.ReasonChangeUndone:
			if now.Sub(x.undone[vm].last) >= undoneUnseen {
				x.stayed(f.cause, now)
			}
			continue
		case f.unwanted.IsZero():
			f.unwanted = now
		case now.Sub(f.unwanted) >= unwantedAfter:
			x.drop(vm)
			continue
		}
		x.byVM[vm] = f
	}
}

const unwantedAfter = time.Minute

// lost makes the group start slowly when many of its members were lost at once, because the new ones may be lost for the same reason.
func (x *failures) lost(many bool) {
	if many && !x.lostMany && x.atOnce == 0 {
		x.atOnce.begin()
	}
	x.lostMany = many
}

// askedFor returns the failure of which an operator asked for the try that an action is; false if there is none, or if no other failure waits for
// its cause.
func (x *failures) askedFor(a *plan.Action) (f failure, has bool) {
	if f, has = x.asked[a.Key]; !has || f.action.Op != a.Op || f.action.MoRef != a.MoRef {
		return failure{}, false
	}
	f.cause, has = x.causes[f.cause.key]
	return f, has
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
