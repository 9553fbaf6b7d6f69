package world

import "codeconnect.vmworld.com/vmgroup/sync/plan"

// fault is a typed fault, as package vsphere returns them.
type fault plan.Fault

func (f *fault) Error() string         { return f.Reason }
func (f *fault) PlanFault() plan.Fault { return plan.Fault(*f) }

func passing(reason string) *fault {
	return &fault{Reason: reason, Message: reason + ": retried", Passing: true}
}

func person(reason string) *fault {
	return &fault{Reason: reason, Message: reason + ": an operator must act", Person: true}
}

// untried marks a fault as one before anything was done.
func untried(err error) error {
	f, is := err.(*fault)
	if !is {
		return err
	}
	given := *f
	given.Untried = true
	return &given
}

// The faults of the model of vsphere, marked as vsphere marks them.
var (
	notOurs        = passing("ConcurrentAccess")
	changed        = passing("ConcurrentAccess")
	wantedAfterAll = passing("ConcurrentAccess")
	leaseOver      = passing("ConcurrentAccess")
	replyLost      = passing("VCenterUnreachable")
	objectGone     = passing("Gone")
	wrongPower     = passing("InvalidPowerState")
	cloneUnderWay  = passing("CloneUnderWay")
	removing       = passing(plan.ReasonRemoving)
	nameHeld       = passing(plan.ReasonNameHeld)
	nameConflict   = person(plan.ReasonNameConflict)
	inUse          = &fault{Reason: plan.ReasonDuplicateMember, Message: "it may have been in use"}
	unmanaged      = passing(plan.ReasonFolderHoldsStranger)
	diskMissing    = person("DiskMissing")
	diskInUse      = person("DiskInUse")
	duplicateDisk  = person("DuplicateDisk")
	diskInSnapshot = person("DiskHeldBySnapshot")
	extendRefused  = person("DiskExtendRefused")
	noSuchTemplate = person(plan.ReasonTemplateNotFound)
	storageOut     = passing("DatastoreInaccessible")
	noTools        = &fault{Reason: plan.ReasonToolsUnavailable, Message: "the guest cannot be asked"}
	unreadable     = &fault{Reason: plan.ReasonUnreachable, Message: "the VM cannot be read"}
	noPermission   = person("MissingPrivilege")

	// refusals are what vCenter may answer to any call.
	refusals = []*fault{passing("TaskInProgress"), passing("ConcurrentAccess"), {Reason: "ResourceLimit", Message: "no resources"},
		person("MissingPrivilege"), {Reason: "Internal", Message: "an internal error"}, replyLost}
)
