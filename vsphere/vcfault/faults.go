package vcfault

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Error is a failure in vCenter. Its Fault is for the status, so equal failures give equal Faults, without times and ids of tasks or operations.
// Its cause is for the log.
type Error struct {
	plan.Fault
	// Op names the step that failed; it can be empty.
	Op string
	// Err is the cause; it can be nil.
	Err error
}

// Error returns the step, the fault and, for the log, the cause.
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// PlanFault returns the fault. Package loop calls it through an interface, without importing this package.
func (e *Error) PlanFault() plan.Fault { return e.Fault }

// markTransient marks the faults that end by themselves within seconds or minutes, and whose retry is cheap.
func markTransient(f plan.Fault) plan.Fault {
	f.Transient = !f.NeedsOperator && slices.Contains([]string{plan.ReasonCloneRunning, ReasonTaskInProgress, ReasonConcurrentAccess,
		ReasonGone, ReasonTaskLost, ReasonNoHostApart, ReasonInvalidPowerState, ReasonNameHeld, ReasonAdoptReading, ReasonLibraryReading, ReasonLibraryUnavailable, ReasonNotAuthenticated, ReasonVCenterUnreachable,
		plan.ReasonRemoving, plan.ReasonFolderHoldsStranger, plan.ReasonFolderStays, plan.ReasonInventoryNotRead, plan.ReasonVCenterChanged}, f.Reason)
	return f
}

// ForOperator returns an error whose cause only an operator can correct: in vCenter, in the spec or in the server's settings.
func ForOperator(reason, format string, args ...any) *Error {
	e := found(reason, format, args...)
	e.NeedsOperator = true
	_, e.Missing = named[reason]
	return e
}

// ForRetry returns a fault that the server found itself, and that ends without an operator: the server tries again.
func ForRetry(reason, format string, args ...any) *Error {
	e := found(reason, format, args...)
	e.Fault = markTransient(e.Fault)
	return e
}

func found(reason, format string, args ...any) *Error {
	return &Error{Fault: plan.Fault{Reason: reason, Message: fmt.Sprintf(format, args...), Scope: named[reason]}}
}

// Untried marks an error of a step that failed before it changed anything.
func Untried(err error) *Error {
	e := *Classify("", err)
	e.Untried = true
	return &e
}

// Classify converts an error to an *Error, by the types in the error's tree and never by its text; nil for nil. If the tree contains an *Error,
// Classify returns that one, or a copy with Op if its Op is empty.
//
// Otherwise the first match counts: this package's other errors (ownFault); vCenter's faults (vimFault); the certificate (OfCertificate); the
// network and the caller's context (OfNetwork). If none matches, the reason is Internal, and the message is the error's text.
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
			e.Fault = markTransient(f)
			return e
		}
	}
	e.Fault = internal(err.Error())
	return e
}

// ownFault returns the fault for an error value of this package.
func ownFault(err error) (plan.Fault, bool) {
	if errors.Is(err, ErrTaskLost) {
		return plan.Fault{Reason: ReasonTaskLost, Message: "vCenter no longer knows the task; the inventory will show its result."}, true
	}
	return plan.Fault{}, false
}

// internal returns the fault for an error that the table does not foresee. It keeps vCenter's message.
func internal(message string) plan.Fault {
	if message = Steady(message); message == "" {
		message = "vCenter reported a failure and gave no message; its task list may say more."
	}
	return plan.Fault{Reason: ReasonInternal, Message: message}
}

// NotVCenterAPI returns the fault for an answer that does not conform to vCenter's API. cause is for the log and can be nil.
func NotVCenterAPI(method string, cause error) *Error {
	e := ForRetry(ReasonNotVCenterAPI,
		"The answer to %s from vCenter's address is not one of vCenter's API: check that VC_HOST leads to vCenter itself, and not to a proxy or a login page.", method)
	e.Err = cause
	return e
}

// Known reports whether an error is a fault of vCenter, of the network or of the server. Any other error of a call means that the server does not
// understand the answer.
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

// NotAuthenticated reports whether vCenter has no session for the server, because it ended or never began.
func NotAuthenticated(err error) bool {
	return fault.Is(err, &types.NotAuthenticated{})
}

// Has reports whether an error's tree has a fault of type T, which is a pointer or a Base… interface.
func Has[T any](err error) bool {
	return slices.ContainsFunc(faultsIn(err), func(f types.BaseMethodFault) bool {
		_, is := f.(T)
		return is
	})
}

// Says reports whether a fault in an error's tree has a message with that key (MethodFault.faultMessage). vCenter translates a message's text, but
// not its key.
func Says(err error, key string) bool {
	return slices.ContainsFunc(faultsIn(err), func(f types.BaseMethodFault) bool {
		return slices.ContainsFunc(f.GetMethodFault().FaultMessage, func(m types.LocalizableMessage) bool { return m.Key == key })
	})
}

// Types returns the type names of vCenter's faults in an error's tree, the outermost first.
func Types(err error) (names []string) {
	for _, f := range faultsIn(err) {
		if name := typeName(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// typeName returns the name of a fault's type; empty for a fault that is no pointer.
func typeName(f types.BaseMethodFault) string {
	if t := reflect.TypeOf(f); t.Kind() == reflect.Pointer {
		return t.Elem().Name()
	}
	return ""
}

// MissingObject returns the object of a ManagedObjectNotFound; the zero reference for any other error.
func MissingObject(err error) types.ManagedObjectReference {
	var gone *types.ManagedObjectNotFound
	if _, is := fault.As(err, &gone); is {
		return gone.Obj
	}
	return types.ManagedObjectReference{}
}

// SessionEnded returns an error if f, the fault of a property that is missing in an answer, means that the session has ended.
func SessionEnded(f types.BaseMethodFault) error {
	if f == nil {
		return nil
	}
	if err := soap.WrapVimFault(f); NotAuthenticated(err) {
		return err
	}
	return nil
}

// AlreadyIn reports whether vCenter refused a call because the VM already has that power state.
func AlreadyIn(err error, wanted types.VirtualMachinePowerState) bool {
	var already *types.InvalidPowerState
	_, is := fault.As(err, &already)
	return is && already.ExistingState == wanted
}

// ErrTaskLost means that vCenter no longer knows a task, so that only the inventory can show the task's result.
var ErrTaskLost = errors.New("vCenter no longer knows the task")
