package vsphere

import (
	"sync"
	"time"

	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A step that fails is tried again, for weeks if nobody removes the cause. The log has each failure of the first minute, and then one line an
// hour; and that the step was done in the end.

const (
	// eachFor is for how long each failure is logged, and tellEvery how often later ones are.
	eachFor, tellEvery = time.Minute, time.Hour
	// troubleOver is after how long without a failure the next one is another trouble. It is well above the pace of tries (sync/loop/cause.go), of
	// which other groups may take most.
	troubleOver = 24 * time.Hour
)

// troubles are what fails again and again. Its mutex guards its fields, and is taken alone.
type troubles struct {
	mu  sync.Mutex
	all map[troubleKey]*trouble
}

// troubleKey is a kind of step of a group, and why it fails.
type troubleKey struct {
	group  apitypes.UID
	op     plan.Op
	reason string
}

// trouble is when it failed first and last, when that was logged last, and how often it failed since.
type trouble struct {
	began, last, told time.Time
	times             int
}

// failed counts a failure, and reports whether it is to be logged, and for how many it stands.
func (t *troubles) failed(key troubleKey, now time.Time) (tell bool, times int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for other, x := range t.all { // few groups have troubles at once
		if now.Sub(x.last) >= troubleOver {
			delete(t.all, other)
		}
	}
	x := t.all[key]
	if x == nil {
		x = &trouble{began: now}
		if t.all == nil {
			t.all = map[troubleKey]*trouble{}
		}
		t.all[key] = x
	}
	x.last = now
	x.times++
	if now.Sub(x.began) >= eachFor && now.Sub(x.told) < tellEvery {
		return false, 0
	}
	times, x.told, x.times = x.times, now, 0
	return true, times
}

// done forgets why a kind of step of a group failed.
func (t *troubles) done(group apitypes.UID, op plan.Op) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.all {
		if key.group == group && key.op == op {
			delete(t.all, key)
		}
	}
}
