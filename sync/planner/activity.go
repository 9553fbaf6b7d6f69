package planner

import "codeconnect.vmworld.com/vmgroup/sync/plan"

// The activities of several concerns. Those of one are in its file.
var (
	// starting: a member is powered on, or gets first what it needs for that.
	starting = &plan.Activity{Says: "powering on %s", Noun: "member", Busy: true, Updates: true}
	// leaving: a member is removed.
	leaving = &plan.Activity{Says: "removing %s", Noun: "member", ByDeletion: true, Busy: true, Updates: true}
	// standingBy: a standby member is made, prepared or resized.
	standingBy = &plan.Activity{Says: "creating or updating %d of %s", Noun: "standby member", OfStandby: true, Background: true, ByDeletion: true, Standby: true}
	// tidying: a duplicate, or a VM in or for quarantine, is moved or removed.
	tidying = &plan.Activity{Says: "quarantining or removing %s", Noun: "VM", Background: true, ByDeletion: true}
)
