package loop

import (
	"maps"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/limiter"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// runs are the group's steps that run, by Action.Key.
type runs map[string]*run

// run is a step that runs.
type run struct {
	action   plan.Action
	began    time.Time
	slot     *limiter.Running // nil: it takes none
	stalled  *plan.Fault      // not nil: it makes no progress, so its slot is free for others
	failing  *kindOfOne       // under which it counts in Loop.failing; nil if it does not
	outdated bool             // it began before the group was finalizing
	change   string           // what it changes, if that is to stay (changeOf)
	undoers  string           // who undid that change the last time (plan.StepResult)
	cause    *cause           // of its last failure; nil if there was none
	passes   time.Time        // when it has run for so long that the cause is past
}

// begin adds a step.
func (r runs) begin(a plan.Action, now time.Time) *run {
	r[a.Key] = &run{action: a, began: now}
	return r[a.Key]
}

// retry notes that a step tries what failed before.
func (x *run) retry(f *failure) {
	x.cause, x.passes = f.cause, x.began.Add(f.took+settling)
	f.cause.running = append(f.cause.running, x)
}

// end removes a step, and returns when it began; the zero time if it is not there.
func (r runs) end(vm string) (began time.Time) {
	x := r[vm]
	if x == nil {
		return began
	}
	if x.cause != nil {
		x.cause.running = slices.DeleteFunc(x.cause.running, func(other *run) bool { return other == x })
	}
	delete(r, vm)
	return x.began
}

// op is what runs for a VM; empty if nothing does.
func (r runs) op(vm string) plan.Op {
	if x := r[vm]; x != nil {
		return x.action.Op
	}
	return ""
}

// outdate notes that what runs now began before the group was finalizing.
func (r runs) outdate() {
	for _, x := range r {
		x.outdated = true
	}
}

// isOutdated reports whether what runs for a VM began before the group was finalizing.
func (r runs) isOutdated(vm string) bool { return r[vm] != nil && r[vm].outdated }

// atWork is how many take a slot.
func (r runs) atWork() (n int) {
	for _, x := range r {
		if x.slot != nil && x.stalled == nil {
			n++
		}
	}
	return n
}

// past reports whether a step tries what failed before, and has run for so long that the cause is past.
func (x *run) past(now time.Time) bool { return x.cause != nil && !now.Before(x.passes) }

// passed is how many of those that take a slot have run for so long that the cause of their last failure is past.
func (r runs) passed(now time.Time) (n int) {
	for _, x := range r {
		if x.slot != nil && x.stalled == nil && x.past(now) {
			n++
		}
	}
	return n
}

// inOrder returns the keys, sorted.
func (r runs) inOrder() []string { return slices.Sorted(maps.Keys(r)) }
