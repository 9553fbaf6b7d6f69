// Package tell puts a decision into words: the status with its conditions and message, Events, verdicts, and when the next hook call is to come. It
// decides nothing about VMs.
package tell

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// About completes a result that has the actions and the children: it adds the status, verdicts, Events, the time of the next call, or a refusal.
func About(d *Decision, result *plan.Result) {
	r := reportOf(d)
	r.findFaults()
	r.setNextCall(result)
	result.Status, result.Verdicts = r.status(r.message()), r.verdicts()
	if result.Refusal = r.servedElsewhere(); result.Refusal == nil {
		result.Events = r.events(&result.Status)
	}
}

// AboutAbandoned is About for a group whose deletion ends without vCenter, because an operator asked for that. It reports what is left behind. The
// status is deleted with the group, so Events name all of it.
func AboutAbandoned(d *Decision, result *plan.Result) {
	left := d.leftBehind()
	message := "abandoned; no VM is known to be left behind"
	if len(left) > 0 {
		message = "abandoned; left behind in vCenter: " + plan.AtMost(left, 20)
	}
	of := *d
	of.BlockedBy, of.ShortOutage = &plan.Block{Fault: plan.Fault{Reason: plan.ReasonAbandoned, Message: message}}, false
	r := &report{Decision: &of}
	r.setNextCall(result)
	result.Status, result.Events = r.status(message), r.abandonedEvents(left)
}
