package vcfault

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
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
		plan.ReasonRemoving, plan.ReasonFolderHoldsStranger, plan.ReasonFolderStays, plan.ReasonInventoryNotRead, plan.ReasonVCenterChanged}, f.Reason)
	return f
}

// New makes an Error of our own finding. person reports whether waiting does not help.
func New(reason string, person bool, format string, args ...any) *Error {
	return &Error{Fault: mayPass(plan.Fault{Reason: reason, Person: person, Message: fmt.Sprintf(format, args...)})}
}

// Untried says of an error that nothing was done.
func Untried(err error) *Error {
	e := *Classify("", err)
	e.Untried = true
	return &e
}

// Classify says what an error means, by the types in its tree and never by its text. nil gives nil; what is an
// *Error already stays as it is and only gains op if it has none.
//
// The first that fits wins: our own errors; vCenter's faults (vimfaults.go); the caller's context; the
// certificate; the network (netfaults.go); Internal, with the error's text.
func Classify(op string, err error) *Error {
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
	for _, read := range []func(error) (plan.Fault, bool){ownFault, vimFault, OfCertificate, OfNetwork} {
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
	if errors.Is(err, ErrTaskLost) {
		return plan.Fault{Reason: ReasonTaskLost, Message: "vCenter no longer knows the task; what came of it is read from the inventory."}, true
	}
	return plan.Fault{}, false
}

// internal is the fault for what nobody foresaw: it keeps vCenter's words.
func internal(message string) plan.Fault {
	if message = Steady(message); message == "" {
		message = "vCenter reported a failure and gave no message; its task list may say more."
	}
	return plan.Fault{Reason: ReasonInternal, Message: message}
}

// NotVCenterAPI is the fault for an answer that is not one of vCenter's API. cause is for the log and may be nil.
func NotVCenterAPI(method string, cause error) *Error {
	e := New(ReasonNotVCenterAPI, false,
		"What answers %s at vCenter's address does not speak vCenter's API: see whether VC_HOST leads to vCenter itself, and not to a proxy or a login page.", method)
	e.Err = cause
	return e
}

// Known reports whether an error is a fault of vCenter, of the network or of ours. What else a call can end with is an answer
// that is not understood.
func Known(err error) bool {
	if _, own := errors.AsType[*Error](err); own || soap.IsSoapFault(err) || soap.IsVimFault(err) {
		return true
	}
	for _, read := range []func(error) (plan.Fault, bool){vimFault, OfCertificate, OfNetwork} {
		if _, is := read(err); is {
			return true
		}
	}
	return false
}

// NotAuthenticated reports whether vCenter knows no session of ours (any more).
func NotAuthenticated(err error) bool {
	return fault.Is(err, &types.NotAuthenticated{})
}

// Has reports whether a fault of type T, a pointer or a Base… interface, is in an error's tree.
func Has[T any](err error) bool {
	faults, _ := faultsIn(err)
	return slices.ContainsFunc(faults, func(f types.BaseMethodFault) bool {
		_, is := f.(T)
		return is
	})
}

// MissingObject is what a ManagedObjectNotFound is about; the zero reference if err is something else.
func MissingObject(err error) types.ManagedObjectReference {
	var gone *types.ManagedObjectNotFound
	if _, is := fault.As(err, &gone); is {
		return gone.Obj
	}
	return types.ManagedObjectReference{}
}

// SessionEnded gives an error if that is why a property is missing: the session, rather than the task, is gone.
func SessionEnded(f types.BaseMethodFault) error {
	if f == nil {
		return nil
	}
	if err := soap.WrapVimFault(f); NotAuthenticated(err) {
		return err
	}
	return nil
}

// AlreadyIn reports whether a step was refused because the VM is in that state already.
func AlreadyIn(err error, wanted types.VirtualMachinePowerState) bool {
	var already *types.InvalidPowerState
	_, is := fault.As(err, &already)
	return is && already.ExistingState == wanted
}

// ErrTaskLost means that vCenter no longer knows a task: what came of it only the inventory can tell.
var ErrTaskLost = errors.New("vCenter no longer knows the task")
