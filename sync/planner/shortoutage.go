package planner

import (
	"time"
)

// shortOutage is how long vCenter's state can be unknown before a status says so. After a call of the stream that takes too long, the
// server reads everything again, which takes seconds, and a condition that is Unknown for these seconds would look like an outage.
const shortOutage = 10 * time.Second

// inShortOutage reports whether vCenter's state has been unknown for so short a time that the stored status is returned unchanged, and until when
// that is so. No action starts while the state is unknown. A fault that needs an operator is reported at once, as is a generation without a
// status.
func (f *facts) inShortOutage() (is bool, over time.Time) {
	s := &f.State
	if s.Known || s.UnknownSince.IsZero() || s.Fault != nil && s.Fault.NeedsOperator ||
		f.Group.Status.Phase == "" || f.Group.Status.ObservedGeneration != f.Group.Generation {
		return false, time.Time{}
	}
	over = s.UnknownSince.Add(shortOutage)
	return f.Now.Before(over), over
}
