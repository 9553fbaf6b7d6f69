package loop

import (
	"fmt"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// crashLoop is when a member was last powered on, and how often that was soon after the time before.
type crashLoop struct {
	moRef string
	last  time.Time
	again int
}

// How long a member that halts by itself soon after each power-on waits for the next one, to avoid a hot loop.
const (
	haltsSoon           = 10 * time.Minute
	haltFirst, haltLast = 5 * time.Second, 5 * time.Minute
)

// poweredOn counts a member's power-on, and returns when it can be powered on again: at once, unless it halts again and again.
func (x *failures) poweredOn(a plan.Action, now time.Time) (retry time.Duration) {
	b := x.crashLoops[a.Key]
	if b.again++; now.Sub(b.last) > haltsSoon || b.moRef != a.MoRef {
		b.again = 0
	}
	b.moRef, b.last = a.MoRef, now
	x.crashLoops[a.Key] = b
	if b.again == 0 {
		return 0
	}
	retry = min(haltFirst<<min(b.again, 20), haltLast)
	fault := plan.Fault{Reason: "GuestHalts", NeedsOperator: true, Message: fmt.Sprintf(
		"the VM goes off again and again soon after power-on: look at its console, and in its vCenter events for the user or tool that powers it off; the server waits up to %d minutes between tries",
		int(haltLast.Minutes()))}
	c := x.causes.join(causeKey{op: a.Op, reason: fault.Reason, group: x.group, vm: a.Key}, now)
	c.until = now.Add(retry)
	x.put(failure{action: a, fault: fault}, c)
	return retry
}
