package vcfault

import (
	"slices"

	"github.com/vmware/govmomi/vim25/types"
)

// Overload returns the type name of a fault that means that vCenter is overloaded; empty if the error has none. clone reports whether the error is
// that of a clone: TaskInProgress of a template is a sign of too many clones, but TaskInProgress of a member means that another task, not load,
// blocks the call.
func Overload(err error, clone bool) string {
	faults := faultsIn(err)
	i := slices.IndexFunc(faults, func(f types.BaseMethodFault) bool {
		switch f.(type) {
		case *types.TooManyConcurrentNativeClones, *types.Timedout:
			return true
		case *types.HostNotConnected: // the host is off, not busy
			return false
		case types.BaseHostCommunication:
			return true
		case types.BaseTaskInProgress:
			return clone
		}
		return false
	})
	if i < 0 {
		return ""
	}
	return typeName(faults[i])
}

// Unanswered reports whether a call failed because vCenter did not answer, or because an HTTP status such as 503 came in place of the answer.
func Unanswered(err error) bool {
	e := Classify("", err)
	return e != nil && (e.Reason == ReasonVCenterUnreachable || e.Reason == ReasonTimeout && !Has[*types.Timedout](err))
}
