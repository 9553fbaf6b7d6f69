package plan

import "time"

// Took is what a step took in vCenter, and whether vCenter had too much to do.
type Took struct {
	// Queued and Ran are how long its tasks waited to be started, and ran, by vCenter's own clock; zero where vCenter does not say.
	Queued, Ran time.Duration
	// Overload is vCenter's name of the fault by which it said that it has too much to do; empty if it did not.
	Overload string
	// Unanswered reports whether a call got no answer.
	Unanswered bool
}
