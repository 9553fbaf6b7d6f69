// Package plan is the language of plans: what is observed of a group in Kubernetes and vCenter, what is to be done, and what
// is reported. All packages that observe, decide, act or report use these types.
//
// They are values: there is no context, clock, logger, error, goroutine or client in this package, and time is data. Package
// planner makes the decisions. Apply and Show model what a step and an answer change.
package plan

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Result is a plan.
type Result struct {
	// Status reports what was observed, never what is intended.
	Status v1alpha1.VmGroupStatus
	// Children are the desired child objects, always all of them: Metacontroller deletes those that are not returned.
	Children []Child
	// Actions are the steps wanted now, ordered by rank, at most one for each member. All of one result can
	// be started, in any order.
	Actions []Action
	// Verdicts say what becomes of whom. A VM that has none is kept as it is.
	Verdicts []Verdict
	// Finalized ends the group: nothing of it is left in vCenter, nor among its children.
	Finalized bool
	// Resync is the longest time until the next hook call. InProgress asks for calls as often as there is room for: steps are to be taken,
	// or something is awaited that can happen any moment.
	Resync     time.Duration
	InProgress bool
	// Wake is after how long the plan must be made again even if nothing has changed; zero
	// if it depends on no time.
	Wake time.Duration
	// SlowStart reports whether several members were lost at once: a few are recreated before the others.
	SlowStart bool
	// Events are what is new since the stored status.
	Events []Event
	// Refusal is why the call is refused instead of answered; nil if it is answered. What else the result has is not sent then.
	Refusal *Refusal
}

// Wants reports whether the plan has that step for that member.
func (r *Result) Wants(vm string, op Op) bool {
	return slices.ContainsFunc(r.Actions, func(a Action) bool { return a.VM == vm && a.Op == op })
}

// Step is an action in a forecast. All steps of one round can run at once; a round begins when the previous one
// has ended, and After has passed.
type Step struct {
	Round int
	// After is how long the plan waits before the round: until members have been ready for long enough, a quarantine is
	// over, and the like.
	After time.Duration
	Action
}

// Outlook is a forecast: the steps, and whether it was cut off.
type Outlook struct {
	Steps []Step
	More  bool
	// New reports that nothing of the group is known: its manifest has no UID, and neither vCenter nor the server has a group of its name.
	New bool
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
	// Retry is when to call again if waiting helps; zero if somebody has to act.
	Retry time.Duration
}
