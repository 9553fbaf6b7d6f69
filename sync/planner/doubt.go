package planner

import (
	"time"
)

// shortDoubt is how long vCenter's state may be unknown before a status says so. A call of the stream that overstays is followed by a
// read of everything, which takes seconds; and who waits for a group to be ready would take a status that is unknown meanwhile for
// an outage.
const shortDoubt = 10 * time.Second

// doubts reports whether vCenter's state is unknown for so short a time that the stored status stands as it is. Nothing is done
// meanwhile, as always while it is unknown. What an operator has to mend is told at once, and so is what was never told of this generation.
func (v *view) doubts() bool {
	s := &v.State
	if s.Known || s.UnknownSince.IsZero() || s.Trouble != nil && s.Trouble.Person ||
		v.Group.Status.Phase == "" || v.Group.Status.ObservedGeneration != v.Group.Generation {
		return false
	}
	over := s.UnknownSince.Add(shortDoubt)
	v.wakeAt(over)
	return v.Now.Before(over)
}
