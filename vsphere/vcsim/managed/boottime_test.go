package managed

import "testing"

func TestBootTimesAreStrictlyIncreasing(t *testing.T) {
	t.Parallel()
	v := new(Objects)
	last := v.bootTime()
	for range 10_000 { // many calls per microsecond
		next := v.bootTime()
		if !next.After(last) {
			t.Fatalf("%v after %v", next, last)
		}
		last = next
	}
}
