// Package planner is the pure core of the product: from what Kubernetes and vCenter show now, it computes
// a group's status, its children, and the next steps.
//
// Make is a function of its argument alone. There is no context, clock, logger, error, goroutine or client in
// this package, and equal observations give equal results to the byte. It is called for every hook call and
// again, out of band, before every single action, so whatever starts was planned just now.
package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Make plans a group. The first row that applies decides what holds it back:
//
//	finalizing  abandoned  spec     vCenter          stamps       | figures   children      actions
//	----------  ---------  -------  ---------------  ------------ + --------  ------------  -------------------
//	yes         yes        any      any              any          | observed  none          none; finalized
//	yes         no         any      unknown          any          | kept      none          none
//	yes         no         any      another than was any          | kept      none          none
//	yes         no         any      known            any          | observed  none          remove all, finalize
//	not deleted any        any      any              any          | as received  as received    none; refused, or finalized
//	no          -          any      elsewhere, maybe any          | kept      as last applied  none
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
// "elsewhere, maybe" is a group that another install of the server has (otherInstall); "another, served" one that another install
// writes the status of (servedElsewhere).
//
// "not deleted" is a finalize for a group without deletionTimestamp: nothing is ever removed for one (unselected.go).
//
// properties_test.go has the properties that hold for every observation, a sentence each.
func Make(o plan.Observed) plan.Result {
	if o.Unselected() {
		return answerUnselected(&o)
	}
	s := classify(factsOf(&o))
	if o.Finalizing {
		return finalize(s)
	}
	r := plan.Result{Children: s.children()}
	v := &report{stepsOf(decide(s))}
	r.Wake, r.SlowStart = v.untilWake(), v.lost() > 1 && v.missing() > 1
	if v.blockedBy == nil && !v.paused() {
		r.Actions = v.actions()
	}
	v.setNextCall(&r)
	r.Status, r.Verdicts = v.status(v.message()), v.verdicts()
	if r.Refusal = v.servedElsewhere(); r.Refusal == nil {
		r.Events = v.events(&r.Status)
	}
	return r
}

// paused reports whether the spec asks that nothing be changed.
func (v *facts) paused() bool { return v.Group.Spec.Paused }
