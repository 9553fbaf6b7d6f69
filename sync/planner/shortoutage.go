package planner

import (
	"time"
)

// shortOutage is how long vCenter's state can be unknown before a status says so. After a call of the stream that takes too long, the
// server reads everything again, which takes seconds; someone who waits for a group to be ready would take an unknown status in
// that time for an outage.
const shortOutage = 10 * time.Second

// inShortOutage reports whether vCenter's state has been unknown for so short a time that the stored status stands. Nothing is done
// meanwhile, as always while it is unknown. What an operator must repair is reported at once, as is a generation without a status.
func (f *facts) inShortOutage() (is bool, over time.Time) {
	s := &f.State
	if s.Known || s.UnknownSince.IsZero() || s.Fault != nil && s.Fault.NeedsOperator ||
		f.Group.Status.Phase == "" || f.Group.Status.ObservedGeneration != f.Group.Generation {
		return false, time.Time{}
	}
	over = s.UnknownSince.Add(shortOutage)
	return f.Now.Before(over), over
}
