package vsphere

import (
	"errors"
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The reasons of faults. Each is one CamelCase word that ends up in a condition; plan knows some of them too.
const (
	ReasonTemplateNotFound      = plan.ReasonTemplateNotFound
	ReasonTemplateAmbiguous     = plan.ReasonTemplateAmbiguous
	ReasonNameConflict          = plan.ReasonNameConflict
	ReasonVCenterUnreachable    = "VCenterUnreachable"
	ReasonDatacenterNotFound    = "DatacenterNotFound"
	ReasonDatacenterAmbiguous   = "DatacenterAmbiguous"
	ReasonFolderNotFound        = "FolderNotFound"
	ReasonPoolNotFound          = "ResourcePoolNotFound"
	ReasonPoolAmbiguous         = "ResourcePoolAmbiguous"
	ReasonDatastoreNotFound     = "DatastoreNotFound"
	ReasonDatastoreAmbiguous    = "DatastoreAmbiguous"
	ReasonDatastoreFull         = "DatastoreFull"
	ReasonDatastoreInaccessible = "DatastoreInaccessible"
	ReasonMissingPrivilege      = "MissingPrivilege"
	ReasonResourceLimit         = "ResourceLimit"
	ReasonLicense               = "LicenseMissing"
	ReasonNotAuthenticated      = "NotAuthenticated"
	ReasonInvalidLogin          = "InvalidLogin"
	ReasonCredentials           = "CredentialsUnreadable"
	ReasonCertificateNotTrusted = "CertificateNotTrusted"
	ReasonNotVCenter            = "NotVCenter"
	ReasonTaskInProgress        = "TaskInProgress"
	ReasonConcurrentAccess      = "ConcurrentAccess"
	ReasonQuestionPending       = "QuestionPending"
	ReasonMethodDisabled        = "MethodDisabled"
	ReasonGone                  = "Gone"
	ReasonTaskLost              = "TaskLost"
	ReasonInvalidPowerState     = "InvalidPowerState"
	ReasonInvalidState          = "InvalidState"
	ReasonHostNotConnected      = "HostNotConnected"
	ReasonFileUnavailable       = "FileUnavailable"
	ReasonInvalidConfiguration  = "InvalidConfiguration"
	ReasonTimeout               = "Timeout"
	ReasonCancelled             = "Cancelled"
	ReasonInternal              = "Internal"

	// ReasonToolsUnavailable means that a guest cannot be asked to shut down.
	ReasonToolsUnavailable = plan.ReasonToolsUnavailable
	// ReasonHotAddRefused means that a running VM cannot be given a size; ReasonResizeRefused, that it cannot be while
	// it is off either.
	ReasonHotAddRefused = "HotAddRefused"
	ReasonResizeRefused = plan.ReasonResizeRefused
	// ReasonFolderGone means that the folder that a VM was to be moved into is no longer there.
	ReasonFolderGone = "FolderGone"
	// ReasonNameHeld means that another VM of the group still has the name that one is to get.
	ReasonNameHeld = plan.ReasonNameHeld

	// Why an entry of spec.adopt cannot be carried out. AdoptReading passes.
	ReasonAdoptNotFound   = "AdoptNotFound"
	ReasonAdoptAmbiguous  = "AdoptAmbiguous"
	ReasonAdoptElsewhere  = "AdoptElsewhere"
	ReasonAdoptTemplate   = "AdoptTemplate"
	ReasonAdoptUnreadable = "AdoptUnreadable"
	ReasonAdoptStamped    = "AdoptStamped"
	ReasonAdoptReading    = "AdoptReading"

	// Why a member cannot be cloned as its spec says. NoCompatibleDatastore may pass.
	ReasonSnapshotNotFound          = "SnapshotNotFound"
	ReasonSnapshotAmbiguous         = "SnapshotAmbiguous"
	ReasonSnapshotUnusable          = "SnapshotUnusable"
	ReasonNetworkNotFound           = "NetworkNotFound"
	ReasonNetworkAmbiguous          = "NetworkAmbiguous"
	ReasonNetworkUnusable           = "NetworkUnusable"
	ReasonNoCompatibleDatastore     = "NoCompatibleDatastore"
	ReasonStoragePolicyNotFound     = "StoragePolicyNotFound"
	ReasonStoragePolicyIncompatible = "StoragePolicyIncompatible"
	ReasonStoragePolicyUnavailable  = "StoragePolicyUnavailable"
	ReasonCustomizationSpecNotFound = "CustomizationSpecNotFound"
	ReasonCustomizationSpecUnfit    = "CustomizationSpecUnfit"
	ReasonCustomizationFailed       = "CustomizationFailed"
	ReasonComputerNameTooLong       = "ComputerNameTooLong"
)

// Error is a failure of something that was tried in vCenter. Its fault is for the user: equal failures have
// equal bytes (no clock, no task's or operation's id), for they end up in a status. Its cause is for the log.
type Error struct {
	plan.Fault
	// Op says what was tried; it may be empty.
	Op string
	// Err is the cause; it may be nil.
	Err error
}

// Error gives what was tried, the fault and, for the log, its cause.
func (e *Error) Error() string {
	s := e.Reason + ": " + e.Message
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Err != nil {
		s += " (" + e.Err.Error() + ")"
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// PlanFault gives the fault in plan's words. (loop asks for it without knowing this package.)
func (e *Error) PlanFault() plan.Fault { return e.Fault }

// mayPass marks the faults that go by themselves within seconds or minutes, and where looking again is cheap.
func mayPass(f plan.Fault) plan.Fault {
	f.Passing = !f.Person && slices.Contains([]string{ReasonCloneUnderWay, ReasonTaskInProgress, ReasonConcurrentAccess,
		ReasonGone, ReasonTaskLost, ReasonInvalidPowerState, ReasonNameHeld, ReasonAdoptReading, ReasonNotAuthenticated, ReasonVCenterUnreachable,
		plan.ReasonRemoving, plan.ReasonInventoryNotRead, plan.ReasonVCenterChanged}, f.Reason)
	return f
}

// faultf makes an Error of our own finding. person reports whether waiting does not help.
func faultf(reason string, person bool, format string, args ...any) *Error {
	return &Error{Fault: mayPass(plan.Fault{Reason: reason, Person: person, Message: fmt.Sprintf(format, args...)})}
}

// classify says what an error means, by the types in its tree and never by its text. nil gives nil; what is an
// *Error already stays as it is and only gains op if it has none.
//
// The first that fits wins: our own errors; vCenter's faults (vimfaults.go); the caller's context; the
// certificate; the network (netfaults.go); Internal, with the error's text.
func classify(op string, err error) *Error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		if own.Op != "" || op == "" {
			return own
		}
		named := *own
		named.Op = op
		return &named
	}
	e := &Error{Op: op, Err: err}
	for _, read := range []func(error) (plan.Fault, bool){ownFault, vimFault, certFault, netFault} {
		if f, ok := read(err); ok {
			e.Fault = mayPass(f)
			return e
		}
	}
	e.Fault = internal(err.Error())
	return e
}

// ownFault knows the errors that this package makes.
func ownFault(err error) (plan.Fault, bool) {
	if errors.Is(err, errLost) {
		return plan.Fault{Reason: ReasonTaskLost, Message: "vCenter no longer knows the task; what came of it is read from the inventory."}, true
	}
	return plan.Fault{}, false
}

// internal is the fault for what nobody foresaw: it keeps vCenter's words.
func internal(message string) plan.Fault {
	if message = steady(message); message == "" {
		message = "vCenter reported a failure and gave no message; its task list may say more."
	}
	return plan.Fault{Reason: ReasonInternal, Message: message}
}
