package vcsim

// repeats is how often something ordered happens still.
type repeats struct {
	left    int
	forever bool
}

// newRepeats is so many times; 0: forever.
func newRepeats(times int) repeats { return repeats{left: times, forever: times == 0} }

// take uses one of the times up; false: there is none left.
func (r *repeats) take() bool {
	if r.left == 0 && !r.forever {
		return false
	}
	r.left--
	return true
}
