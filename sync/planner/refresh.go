package planner

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A member that is too old differs from the spec, and goes the way of all that do: within maxSurge and maxUnavailable, in the windows, and
// not while an update is held or has stopped. What was begun before a window closed is finished.

// tooOld reports whether a member has reached its age. One that an older server made has no time in its stamp, so its age is not
// known; an adopted one is as old as its adoption.
func (v *facts) tooOld(vm *plan.VM) bool {
	if v.policy.MaxAge == 0 || vm.Created.IsZero() {
		return false
	}
	due := vm.Created.Add(lifeOf(v.policy.MaxAge, string(v.Group.UID), vm.Ordinal))
	if !v.AgesAt.IsZero() {
		return !v.AgesAt.Before(due)
	}
	v.wakeAt(due)
	return !v.Now.Before(due)
}

// refreshedSince reports whether a member that was made since is available. While some become available, others may become too old: the
// number of updated members need not grow.
func (v *sets) refreshedSince(since time.Time) bool {
	for i := range v.members {
		if m := &v.members[i]; v.policy.MaxAge > 0 && m.available() && m.differs() == "" && m.Created.After(since) {
			return true
		}
	}
	return false
}

// outsideWindows says when an update continues, while no window is open; empty if one is, or there are none.
func (v *facts) outsideWindows() string {
	open, until := openAt(v.Now, windowsOf(v.Group.Spec.Update.Windows))
	v.wakeAt(until)
	if open || until.IsZero() {
		return ""
	}
	return "update.windows: the next one opens at " + until.Format(time.RFC3339)
}

// beginsToTakeDown reports whether an update of the member would begin to take it down: it is not marked for that, and is not changed
// where it is.
func (v *facts) beginsToTakeDown(m *member) bool {
	inPlace := m.outdated == "" && v.policy.Resize != v1alpha1.ResizeReplace && !v.refusesResize(m)
	return !m.Marked && !(inPlace && (m.Power == plan.PoweredOff || v.hot(m)))
}
