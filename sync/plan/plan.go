// Package plan is the language of plans: what is observed of a group in Kubernetes and vCenter, what is to be done about it, and what
// is told of it. Whoever sees, decides, acts or reports speaks in these types.
//
// They are values: there is no context, clock, logger, error, goroutine or client in this package, time is data, and nothing here
// decides. What is decided stands in package planner. Apply and Show are the model of what a step and an answer change.
package plan

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Result is what a plan says.
type Result struct {
	// Status is of what was observed, never of what is intended.
	Status v1alpha1.VmGroupStatus
	// Children are the desired child objects, always whole: Metacontroller deletes what is not returned.
	Children []Child
	// Actions are the steps wanted now, ordered by rank, at most one for each member. Those of one result can
	// all be started, in any order.
	Actions []Action
	// Finalized ends the group: nothing of it is left in vCenter, nor among its children.
	Finalized bool
	// Resync is when the next hook call is wished for at the latest.
	Resync time.Duration
	// Wake is after how long the plan has to be made again although nothing changed: a time will have passed; zero
	// if there is none to wait for.
	Wake time.Duration
	// SlowStart reports whether several members were lost at once: a few are recreated first, before the others.
	SlowStart bool
	// Notes are what is new since the status that is stored.
	Notes []Note
	// Refusal is why the call is refused instead of answered; nil if it is answered.
	Refusal *Refusal
}

// Wants reports whether the plan has that step for that member.
func (r *Result) Wants(vm string, op Op) bool {
	return slices.ContainsFunc(r.Actions, func(a Action) bool { return a.VM == vm && a.Op == op })
}

// Step is an action in a forecast. All steps of one round can run side by side; a round begins when the one
// before has ended, and After more has passed.
type Step struct {
	Round int
	// After is how long nothing is done before the round: until members were ready for long enough, a quarantine is
	// over, and the like.
	After time.Duration
	Action
}

// Outlook is a forecast: the steps, and whether there are more than it tells.
type Outlook struct {
	Steps []Step
	More  bool
	// Blocked is what the group waits for after the steps, if that is not the desired state; its reason is empty if it is.
	Blocked Fault
}

// Obstacle is what a step would meet in vCenter: somebody looked before it is taken.
type Obstacle struct {
	VM string
	Op Op
	// Part is the part of the step that fails, such as "networks".
	Part string
	Fault
}

// Refusal is why a call gets no answer that Metacontroller would store: status and children stay as they are.
type Refusal struct {
	// Message says what happened and what to do.
	Message string
	// Retry is when to call again, where nobody has to do anything but wait; zero where somebody has to act.
	Retry time.Duration
}
