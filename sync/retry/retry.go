// Package retry says how long to wait before the next try of what failed.
package retry

import "time"

// Backoff is an exponential back-off: First after the first failure, then twice as long after each further one, up to Most.
//
// A Backoff has no state, so whoever counts failures needs no second counter, and it draws no random numbers. (wait.Backoff in
// k8s.io/apimachinery counts its steps down in itself, ends its growth after as many as it was given, and takes its jitter from the process' source of
// random numbers, so that no seed would repeat a life.)
type Backoff struct{ First, Most time.Duration }

// After returns how long to wait after so many failures in a row. Without a failure, it is the time after the first.
func (b Backoff) After(failures int) time.Duration {
	pause := min(b.First, b.Most)
	for ; failures > 1 && pause < b.Most; failures-- {
		if pause > b.Most/2 {
			return b.Most
		}
		pause *= 2
	}
	return pause
}

// What fails for a while is tried often, so that somebody who mends it soon sees that. What still fails after watchedFor is tried once in lastingPace
// at most: whoever is asked is spared then.
const (
	watchedFor  = 5 * time.Minute
	lastingPace = time.Minute
)

// Lasting returns how long to wait before the next try of what has failed for so long: pause, but at least a minute once it has failed for five
// minutes.
func Lasting(failing, pause time.Duration) time.Duration {
	if failing >= watchedFor {
		return max(pause, lastingPace)
	}
	return pause
}
