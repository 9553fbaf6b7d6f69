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

// cause is why a window shrinks.
type cause struct {
	why string
	// delayed: actions took longer, and whose are delayed most tells which window to blame.
	delayed bool
	// queued: the far side said so. Else ran is the share of their time in which they ran, as far as that is known.
	queued bool
	ran    float64
}
