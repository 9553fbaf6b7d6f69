package loop

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Members of a group mostly fail the same way: a privilege is missing, a datastore is full. One of them is retried often enough to notice
// soon that the cause is gone, and the others follow.

// kind is what failures of the same kind have in common.
func (f *failure) kind() failureKind { return failureKind{f.action.Op, f.fault} }

type failureKind struct {
	op    plan.Op
	fault plan.Fault
}

// past returns the kinds of failures that no longer block: a step that failed so is running again, and for longer than when it
// failed. They are no longer reported for any member, and the other members' retries are due.
func (x *failures) past(running runs, now time.Time) map[failureKind]bool {
	var past map[failureKind]bool
	for vm, r := range running {
		f, failed := x.byVM[vm]
		if !failed || f.action.Op != r.action.Op || now.Sub(r.began) <= f.took+settling {
			continue
		}
		if past == nil {
			past = map[failureKind]bool{}
		}
		past[f.kind()] = true
	}
	return past
}

// settling is how much longer than the last try a new one has to run before that failure counts as past.
const settling = 2 * time.Second

// othersTry reports whether a step of the same kind for another member, which failed the same way, is running or due before then.
func (x *failures) othersTry(a plan.Action, fault plan.Fault, then time.Time) bool {
	for vm, f := range x.byVM {
		if vm != a.VM && f.kind() == (failureKind{a.Op, fault}) && !f.until.After(then) {
			return true
		}
	}
	return false
}

// retryLike retries members at once that failed the same way as this one, which has now succeeded.
func (x *failures) retryLike(vm string, now time.Time) {
	like, failed := x.byVM[vm]
	for other, f := range x.byVM {
		if failed && f.kind() == like.kind() && f.until.After(now) {
			f.until = now
			x.byVM[other] = f
		}
	}
}
