package world

// Repeats counts how many more times an injected fault happens.
type Repeats struct {
	left    int
	forever bool
}

// NewRepeats allows this many times; 0: forever.
func NewRepeats(times int) Repeats { return Repeats{left: times, forever: times == 0} }

// Take uses up one of the times; false if none is left.
func (r *Repeats) Take() bool {
	if r.left == 0 && !r.forever {
		return false
	}
	r.left--
	return true
}
