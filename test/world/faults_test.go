package world

import "codeconnect.vmworld.com/vmgroup/sync/plan"

// fault is a typed fault, as package vsphere returns them.
type fault plan.Fault

func (f *fault) Error() string         { return f.Reason }
func (f *fault) PlanFault() plan.Fault { return plan.Fault(*f) }

func transient(reason string) *fault {
	return &fault{Reason: reason, Message: reason + ": retried", Transient: true}
}

func needsOperator(reason string) *fault {
	return &fault{Reason: reason, Message: reason + ": an operator must act", NeedsOperator: true}
}

// untried marks a fault as one that occurred before the step changed anything.
func untried(err error) error {
	f, is := err.(*fault)
	if !is {
		return err
	}
	given := *f
	given.Untried = true
	return &given
}

// The faults of the model, marked as package vsphere marks its faults.
var (
	notOurs        = transient("ConcurrentAccess")
	changed        = transient("ConcurrentAccess")
	wantedAfterAll = transient("ConcurrentAccess")
	leaseOver      = transient("ConcurrentAccess")
	replyLost      = transient("VCenterUnreachable")
	objectGone     = transient("Gone")
	busy           = transient("TaskInProgress")
	wrongPower     = transient("InvalidPowerState")
	cloneRunning   = transient("CloneRunning")
	removing       = transient(plan.ReasonRemoving)
	nameHeld       = transient(plan.ReasonNameHeld)
	nameConflict   = needsOperator(plan.ReasonNameConflict)
	inUse          = &fault{Reason: plan.ReasonDuplicateMember, Message: "it may have been in use"}
	unmanaged      = transient(plan.ReasonFolderHoldsStranger)
	diskMissing    = needsOperator("DiskMissing")
	diskInUse      = needsOperator("DiskInUse")
	duplicateDisk  = needsOperator("DuplicateDisk")
	diskInSnapshot = needsOperator("DiskHeldBySnapshot")
	extendRefused  = needsOperator("DiskExtendRefused")
	noSuchTemplate = needsOperator(plan.ReasonTemplateNotFound)
	storageOut     = transient("DatastoreInaccessible")
	noHostApart    = transient("NoHostApart")
	noTools        = &fault{Reason: plan.ReasonToolsUnavailable, Message: "the guest cannot be asked"}
	unreadable     = &fault{Reason: plan.ReasonUnreachable, Message: "the VM cannot be read"}
	noPermission   = needsOperator("MissingPrivilege")

	// refusals are the faults with which vCenter can answer any call.
	refusals = []*fault{busy, transient("ConcurrentAccess"), {Reason: "ResourceLimit", Message: "no resources"},
		needsOperator("MissingPrivilege"), {Reason: "Internal", Message: "an internal error"}, replyLost}
)
