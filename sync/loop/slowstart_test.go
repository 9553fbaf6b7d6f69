package loop

import "testing"

func TestASlowStartDoublesWithEachSuccessUntilItEnds(t *testing.T) {
	var x slowStart
	if !x.permits(1000, 0) {
		t.Error("without a failure, something bounds the actions")
	}
	x.begin()
	for successes, most := range []int{1, 2, 4, 8, 16, 32, 64} {
		if !x.permits(most-1, 0) || x.permits(most, 0) {
			t.Errorf("after %d successes: permits beside %d and %d: %t, %t; want true, false", successes, most-1, most, x.permits(most-1, 0), x.permits(most, 0))
		}
		x.succeeded()
	}
	if !x.permits(1000, 0) {
		t.Error("after seven successes, the slow start goes on")
	}
	if x.begin(); !x.permits(3, 2) || x.permits(4, 2) {
		t.Errorf("beside two that have run for longer than they took to fail: permits beside 3 and 4 others: %t, %t; want true, false", x.permits(3, 2), x.permits(4, 2))
	}
}
