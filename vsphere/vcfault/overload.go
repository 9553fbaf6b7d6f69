package vcfault

import (
	"slices"

	"github.com/vmware/govmomi/vim25/types"
)

// Overload returns vCenter's name of the fault by which it says that it has too much to do; empty if it does not. clone reports whether
// the error is that of a clone: TaskInProgress of its template is a sign of too many clones, but that of a member is somebody's work
// on it.
func Overload(err error, clone bool) string {
	faults := faultsIn(err)
	i := slices.IndexFunc(faults, func(f types.BaseMethodFault) bool {
		switch f.(type) {
		case *types.TooManyConcurrentNativeClones, *types.Timedout:
			return true
		case *types.HostNotConnected: // it is off, and not busy
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

// Unanswered reports whether a call failed because vCenter did not answer it, or an HTTP status such as 503 came instead.
func Unanswered(err error) bool {
	e := Classify("", err)
	return e != nil && (e.Reason == ReasonVCenterUnreachable || e.Reason == ReasonTimeout && !Has[*types.Timedout](err))
}
