package vsphere

import (
	"sync"
	"time"

	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A failing step is retried for as long as its cause remains, which can be weeks. The log has each failure of the first minute, then one line an
// hour, and the success at the end.

const (
	// eachFor is how long each failure is logged; after that, one failure is logged every tellEvery.
	eachFor, tellEvery = time.Minute, time.Hour
	// troubleOver is how long after its last failure a trouble is forgotten. It is well above the interval between retries (sync/loop/cause.go),
	// most of which other groups may take.
	troubleOver = 24 * time.Hour
)

// troubles counts repeated failures. Its mutex guards its fields, and is taken alone.
type troubles struct {
	mu  sync.Mutex
	all map[troubleKey]*trouble
}

// troubleKey identifies a trouble: the group, the kind of step, and the reason for which it fails.
type troubleKey struct {
	group  apitypes.UID
	op     plan.Op
	reason string
}

// trouble records the first and the last failure, the last one that was logged, and the number of failures since.
type trouble struct {
	began, last, told time.Time
	times             int
}

// countFailure counts a failure. It reports whether to log the failure, and the number of failures that this log line stands for.
func (t *troubles) countFailure(key troubleKey, now time.Time) (tell bool, times int) {
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

// forget drops the troubles of one kind of step of a group, because the step succeeded.
func (t *troubles) forget(group apitypes.UID, op plan.Op) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.all {
		if key.group == group && key.op == op {
			delete(t.all, key)
		}
	}
}
