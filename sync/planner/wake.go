package planner

import "time"

// wake is the earliest time at which the same facts lead to another plan, as when a member has been ready for long enough. It is zero if
// there is none. The facts don't change: a method of theirs returns such a time, and the stage that uses its answer notes it.
type wake struct{ now, at time.Time }

// note takes a time into account. One that is over changes nothing.
func (w *wake) note(t time.Time) {
	if t.After(w.now) && (w.at.IsZero() || t.Before(w.at)) {
		w.at = t
	}
}

// after returns how long it is from now on; zero if there is no such time.
func (w *wake) after() time.Duration {
	if w.at.IsZero() {
		return 0
	}
	return w.at.Sub(w.now)
}
