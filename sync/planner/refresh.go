package planner

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A member that is too old differs from the spec, and an update replaces it like any other that differs: within maxSurge and maxUnavailable,
// in the windows, and not while the update is held or has stopped. A replacement that began before a window closed is finished.

// tooOld reports whether a member is as old as update.maxAgeSeconds lets it become, and when it will be; zero if never. Its age counts from its
// stamp: stamps of older servers have no time, and that of an adopted VM has the time of its adoption.
func (f *facts) tooOld(vm *plan.VM) (is bool, due time.Time) {
	if f.policy.MaxAge == 0 || vm.Created.IsZero() {
		return false, time.Time{}
	}
	due = vm.Created.Add(lifeOf(f.policy.MaxAge, string(f.Group.UID), vm.Ordinal))
	if !f.AgesAt.IsZero() {
		return !f.AgesAt.Before(due), time.Time{}
	}
	return !f.Now.Before(due), due
}

// refreshedSince reports whether a member that was created since is available. That is progress although the number of updated members need
// not grow: while some become available, others become too old.
func (s *sets) refreshedSince(since time.Time) bool {
	for i := range s.members {
		if m := &s.members[i]; s.facts.policy.MaxAge > 0 && m.available() && m.differs() == "" && m.Created.After(since) {
			return true
		}
	}
	return false
}

// outsideWindows says when an update continues, while no window is open; empty if one is, or there are none. until is when a window opens
// or closes next; zero if none does.
func (f *facts) outsideWindows() (why string, until time.Time) {
	open, until := openAt(f.Now, windowsOf(f.Group.Spec.Update.Windows))
	if open || until.IsZero() {
		return "", until
	}
	return "update.windows: the next one opens at " + until.Format(time.RFC3339), until
}

// startsTakingDown reports whether an update would begin to take the member down: it has no mark, and is not changed in place.
func (f *facts) startsTakingDown(m *member) bool {
	inPlace := m.outdated == "" && f.policy.Resize != v1alpha1.ResizeReplace && !f.refusesResize(m)
	return !m.Marked && !(inPlace && (m.Power == plan.PoweredOff || f.hot(m)))
}
