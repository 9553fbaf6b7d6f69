package plan

import "time"

// StepResult says how long a step's tasks took in vCenter, and whether vCenter was overloaded.
type StepResult struct {
	// Queued and Ran are how long the step's tasks waited for their start, and ran, by vCenter's clock; zero if vCenter doesn't say.
	Queued, Ran time.Duration
	// Overload is the name of the fault by which vCenter said that it is overloaded; empty if it didn't.
	Overload string
	// Unanswered reports whether a call got no answer.
	Unanswered bool
	// Undoers says, for users, who changed the step's object since Action.Again, as far as vCenter's events tell, or where else to look; empty
	// if that isn't known.
	Undoers string
}
