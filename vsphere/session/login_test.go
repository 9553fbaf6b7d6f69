package session

import (
	"testing"
	"time"
)

// Groups wait for it after an outage, however long that was.
func TestALoginIsTriedAgainWithinSixSecondsUnlessThePasswordWasRefused(t *testing.T) {
	var b backoff
	now := time.Now()
	for n := range 30 {
		if b.fail(now, nil); b.until.Sub(now) > 6*time.Second {
			t.Errorf("after %d failures: %s later", n+1, b.until.Sub(now))
		}
	}
}
