package world

// Repeats is how often something ordered happens still.
type Repeats struct {
	left    int
	forever bool
}

// NewRepeats is so many times; 0: forever.
func NewRepeats(times int) Repeats { return Repeats{left: times, forever: times == 0} }

// Take uses one of the times up; false: there is none left.
func (r *Repeats) Take() bool {
	if r.left == 0 && !r.forever {
		return false
	}
	r.left--
	return true
}
