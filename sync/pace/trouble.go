package pace

// Trouble is a kind of trouble for which windows shrink.
type Trouble string

// The kinds of trouble.
const (
	// Overload: the far side said that it has too much to do. Queued: it let an action wait. Slow: actions took longer than they can.
	Overload Trouble = "overload"
	Queued   Trouble = "queued"
	Slow     Trouble = "slow"
	// Stalled: an action makes no progress.
	Stalled Trouble = "stalled"
)

// Troubles are all kinds of trouble.
var Troubles = []Trouble{Overload, Queued, Slow, Stalled}

// Trouble is the kind for which windows shrink when an action has ended so, if they do.
func (o Outcome) Trouble() Trouble {
	switch {
	case o.Overload != "":
		return Overload
	case o.Queued > queuedMost:
		return Queued
	}
	return Slow
}
