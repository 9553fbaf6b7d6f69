// Package plan has the types of plans: what is observed of a group in Kubernetes and vCenter, which steps are wanted, and what is reported.
// All packages that observe, decide, act or report use these types.
//
// The types are values: this package has no context, clock, logger, error, goroutine or client, and gets the time as an argument. Package
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
	// Actions are the steps wanted now, ordered by rank, at most one for each member. The caller can start all of them, in any order.
	Actions []Action
	// Verdicts say what the server does with each VM or ordinal, and why. A VM without a verdict is kept as it is.
	Verdicts []Verdict
	// Finalized completes the group's deletion: neither vCenter nor Kubernetes has VMs, folders or children of the group.
	Finalized bool
	// Resync is the longest time until the next hook call. InProgress asks for calls as often as the server has capacity for: the plan has
	// steps, or waits for something that can happen at any moment.
	Resync     time.Duration
	InProgress bool
	// Wake is the time after which the plan must be made again even if nothing has changed; zero if the plan doesn't depend on the time.
	Wake time.Duration
	// SlowStart reports whether several members were lost at once, so that a few are recreated before the others.
	SlowStart bool
	// Events report what is new since the stored status.
	Events []Event
	// Refusal is why the call is refused instead of answered; nil if it is answered. The server doesn't send the rest of a refused result.
	Refusal *Refusal
}

// Wants reports whether the plan has that step for that member.
func (r *Result) Wants(vm string, op Op) bool {
	return slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Key == vm && a.Op == op })
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

// Outlook is a forecast: the steps, and whether the forecast was cut off.
type Outlook struct {
	Steps []Step
	More  bool
	// New reports that the group doesn't exist yet: its manifest has no UID, and neither vCenter nor the server has a group of its name.
	New bool
	// Spec is the spec that the steps lead to; nil if that is not asked. It is immutable.
	Spec *v1alpha1.VmGroupSpec
	// Needs is what the members need, nil if that is not asked; and Warnings are what is probably not meant in the spec.
	Needs    *Needs
	Warnings []Warning
	// Changes are how the spec differs from the one that the server has been called with; empty if that is unknown.
	Changes []Change
	// Blocked is what the group waits for after the steps, if they don't lead to the desired state; otherwise its reason is empty.
	Blocked Fault
}

// Preflight is what vCenter shows about a step, without carrying it out.
type Preflight struct {
	// Obstacles are what the step would fail on.
	Obstacles []Obstacle
	// Warnings say where there is too little room for a clone. TemplateDisksGiB is the size of its copies of the template's disks, in GiB; 0 if unknown.
	Warnings         []Warning
	TemplateDisksGiB int64
}

// Obstacle is a fault that a step would meet in vCenter, found by a preflight.
type Obstacle struct {
	VM string
	Op Op
	// Part is the part of the step that fails, such as "networks".
	Part string
	Fault
}

// Refusal is why a call gets no answer that Metacontroller would store: status and children don't change.
type Refusal struct {
	// Message says what happened and what to do.
	Message string
	// Retry is when to call again if waiting helps; zero if an operator has to act.
	Retry time.Duration
}
