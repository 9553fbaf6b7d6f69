package loop

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Members of a group mostly fail alike: a privilege is missing, a datastore is full. One of them is tried often enough that the
// end of it is seen soon, and the others follow.

// kind is what failures have in common that fail alike.
func (f *failure) kind() failureKind { return failureKind{f.action.Op, f.fault} }

type failureKind struct {
	op    plan.Op
	fault plan.Fault
}

// past are the failures that hinder no more: a step that failed so is under way again, and longer than when it failed. They
// are told no more, of no member, and the others are due.
func (g *group) past(now time.Time) map[failureKind]bool {
	var past map[failureKind]bool
	for vm, a := range g.running {
		f, failed := g.failures[vm]
		if !failed || f.action.Op != a.Op || now.Sub(g.began[vm]) <= f.took+toldOn {
			continue
		}
		if past == nil {
			past = map[failureKind]bool{}
		}
		past[f.kind()] = true
	}
	return past
}

// toldOn is how much longer than the last try a new one is under way before that one's failure counts as past.
const toldOn = 2 * time.Second

// othersTry reports whether a step of the same kind for another member, which failed alike, is under way or comes until then.
func (g *group) othersTry(a plan.Action, fault plan.Fault, then time.Time) bool {
	for vm, f := range g.failures {
		if vm != a.VM && f.kind() == (failureKind{a.Op, fault}) && !f.until.After(then) {
			return true
		}
	}
	return false
}

// retryLike has those tried again at once that failed as a member did which has succeeded now.
func (g *group) retryLike(vm string, now time.Time) {
	like, failed := g.failures[vm]
	for other, f := range g.failures {
		if failed && f.kind() == like.kind() && f.until.After(now) {
			f.until = now
			g.failures[other] = f
		}
	}
}
