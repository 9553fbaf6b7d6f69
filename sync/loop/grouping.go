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
func (g *group) past(now time.Time) map[failureKind]bool {
	var past map[failureKind]bool
	for vm, a := range g.running {
		f, failed := g.failures[vm]
		if !failed || f.action.Op != a.Op || now.Sub(g.began[vm]) <= f.took+settling {
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
func (g *group) othersTry(a plan.Action, fault plan.Fault, then time.Time) bool {
	for vm, f := range g.failures {
		if vm != a.VM && f.kind() == (failureKind{a.Op, fault}) && !f.until.After(then) {
			return true
		}
	}
	return false
}

// retryLike retries members at once that failed the same way as this one, which has now succeeded.
func (g *group) retryLike(vm string, now time.Time) {
	like, failed := g.failures[vm]
	for other, f := range g.failures {
		if failed && f.kind() == like.kind() && f.until.After(now) {
			f.until = now
			g.failures[other] = f
		}
	}
}
