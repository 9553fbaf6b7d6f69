// Package planner is the pure core of the product: from what Kubernetes and vCenter show now, it computes
// a group's status, its children, and the next steps.
//
// Make is a function of its argument alone. There is no context, clock, logger, error, goroutine or client in
// this package, and equal observations give equal results to the byte. The server calls Make for every hook call, and
// again before every single action, so each action that starts was planned just before.
package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/tell"
)

// Make plans a group. The first row that applies decides what blocks it:
//
//	finalizing  abandoned  spec     vCenter          stamps       | figures   children      actions
//	----------  ---------  -------  ---------------  ------------ + --------  ------------  -------------------
//	yes         yes        any      any              any          | observed  none          none; finalized
//	yes         no         any      unknown          any          | kept      none          none
//	yes         no         any      another than was any          | kept      none          none
//	yes         no         any      known            newer        | observed  as received   none
//	yes         no         any      known            ours         | observed  none          remove all, finalize
//	not deleted any        any      any              any          | as received  as received    none; refused, or finalized
//	no          -          any      elsewhere, maybe any          | kept      as last applied  none
//	no          -          invalid  unknown          any          | kept      as last applied  none
//	no          -          any      unknown          any          | kept      as last applied  none
//	no          -          any      another than was any          | kept      as last applied  none
//	no          -          any      another, served  any          | kept      as last applied  none; refused
//	no          -          invalid  known            any          | observed  as last applied  none
//	no          -          valid    settings unfit   any          | observed  wanted        none
//	no          -          valid    known            newer        | observed  wanted        none
//	no          -          valid    known            ours         | observed  wanted        toward the spec
//
// A group with spec.paused is planned likewise, but its actions are dropped: the status says what would be done.
//
// "newer" stamps have a generation that is higher than the hook call's, or, of a group that is being deleted, no lower. The call is also treated so if
// it is older than the newest one (plan.OlderCall).
//
// Where the figures of the stored status are kept because vCenter's state is unknown, its faults are kept, too (tell/lastknown.go).
//
// "elsewhere, maybe" is a group that another install of the server has as well (otherInstall). "another, served" is a group whose status
// another install writes (servedElsewhere). "not deleted" is a finalize call for a group without deletionTimestamp: such a call removes
// nothing (unselected.go).
//
// properties_test.go has the properties that are true of every observation, one sentence for each.
func Make(o plan.Observed) plan.Result { return tell.Bound(resultOf(o)) }

func resultOf(o plan.Observed) plan.Result {
	if o.Unselected() {
		return answerUnselected(&o)
	}
	s := classify(factsOf(&o))
	if s.facts.abandoned() {
		return abandon(s)
	}
	steps := stepsOf(decide(s))
	result := plan.Result{Children: s.children(), Actions: steps.actions(), Finalized: steps.ended(), Wake: steps.untilWake(), SlowStart: steps.startSlowly()}
	if s.facts.paused() {
		result.Actions, result.Finalized = nil, false
	}
	tell.About(steps.told(), &result)
	return result
}

// stepsOf finds the next steps of a group.
func stepsOf(d *decision) *steps {
	s := newSteps(d)
	switch {
	case d.facts.blockedBy != nil:
	case d.facts.Finalizing:
		s.findThoseToEnd()
	default:
		s.findNext()
	}
	return s
}

// abandon ends a group without vCenter, because an operator asked for that.
func abandon(s *sets) plan.Result {
	steps := newSteps(decide(s))
	result := plan.Result{Finalized: s.facts.childless()}
	if s.facts.orphaned() {
		result.Children = s.children()
	}
	tell.AboutAbandoned(steps.told(), &result)
	return result
}
