package session

import (
	"slices"
	"testing"
	"time"
)

// After an outage, groups wait for the next login, so the client's back-off must stay short. In a long outage, the client makes one attempt a
// minute.
func TestALoginIsTriedAgainWithinSixSecondsAndAfterFiveMinutesOnceAMinute(t *testing.T) {
	var b backoff
	began := time.Now()
	attempts := map[bool]int{} // the key: whether the outage has lasted 5 minutes
	for now := began; now.Sub(began) < time.Hour+5*time.Minute; now = b.until {
		lasts := now.Sub(began) >= 5*time.Minute
		attempts[lasts]++
		b.fail(now, nil)
		least, most := time.Duration(0), 6*time.Second
		if lasts {
			least, most = time.Minute, 72*time.Second
		}
		if wait := b.until.Sub(now); wait < least || wait > most {
			t.Errorf("the attempt after %s is followed by another one %s later; want from %s to %s", now.Sub(began), wait, least, most)
		}
	}
	if attempts[false] < 50 || attempts[true] < 50 || attempts[true] > 60 {
		t.Errorf("attempts: %v", attempts)
	}
}

// vCenter locks an account after 5 refusals within 180 s by default. Two replicas must stay below that, even if some logins fail for another
// reason.
func TestTwoReplicasWithAWrongPasswordDoNotLockTheAccount(t *testing.T) {
	t.Parallel()
	const lockout, within = 5, 180 * time.Second
	for round := range 300 {
		var refusals []time.Duration
		began, wrong := time.Now(), digestOf("vmgroup", "wrong")
		for range 2 {
			var b backoff
			now := began
			for try := 0; now.Sub(began) < time.Hour; try++ {
				if round%3 > 0 && try%(round%3+1) == 0 {
					b.fail(now, nil)
				} else {
					b.fail(now, &wrong)
					refusals = append(refusals, now.Sub(began))
				}
				if now = b.until; b.holds(now, &wrong) || !b.holds(now.Add(-time.Nanosecond), nil) {
					t.Fatalf("the backoff does not end at its time %s; want logins held back until then, and no longer", b.until)
				}
			}
		}
		slices.Sort(refusals)
		for i := range refusals[:len(refusals)-lockout+1] {
			if last := refusals[i+lockout-1]; last-refusals[i] < within {
				t.Fatalf("%d refusals from %s to %s", lockout, refusals[i], last)
			}
		}
	}
}
