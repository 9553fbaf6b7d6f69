package loop

// slowStart bounds how many actions run at once after a failure: one, and with every success twice as many, until only the slots bound them. Zero is no
// bound.
type slowStart int

// slowStartEnds is the highest bound.
const slowStartEnds = 64

// begin begins with one action.
func (x *slowStart) begin() { *x = 1 }

// succeeded notes that an action succeeded.
func (x *slowStart) succeeded() {
	if *x *= 2; *x > slowStartEnds {
		*x = 0
	}
}

// permits reports whether another action can run beside some that run, and some that have passed: those have run for longer than they took to fail, and
// each counts as a success.
func (x slowStart) permits(running, passed int) bool {
	return x == 0 || running < int(x)<<min(passed, 6)
}
