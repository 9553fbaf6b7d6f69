package loop

import (
	"fmt"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/retry"
)

// crashLoop is when a member was last powered on, and how often that was soon after the time before.
type crashLoop struct {
	moRef string
	last  time.Time
	again int
}

// haltsSoon is how soon after a power-on a member has to halt by itself for the next one to wait, to avoid a hot loop.
const haltsSoon = 10 * time.Minute

// halts is how long such a member waits for its next power-on.
var halts = retry.Backoff{First: 10 * time.Second, Most: 5 * time.Minute}

// poweredOn counts a member's power-on, and returns in what time it can be powered on again: at once, unless it halts again and again.
func (x *failures) poweredOn(a plan.Action, now time.Time) (wait time.Duration) {
	b := x.crashLoops[a.Key]
	if b.again++; now.Sub(b.last) > haltsSoon || b.moRef != a.MoRef {
		b.again = 0
	}
	b.moRef, b.last = a.MoRef, now
	x.crashLoops[a.Key] = b
	if b.again == 0 {
		return 0
	}
	wait = halts.After(b.again)
	fault := plan.Fault{Reason: "GuestHalts", NeedsOperator: true, Message: fmt.Sprintf(
		"the VM goes off again and again soon after power-on: look at its console, and in its vCenter events for the user or tool that powers it off; the server waits up to %d minutes between tries",
		int(halts.Most.Minutes()))}
	c := x.causes.join(causeKey{op: a.Op, reason: fault.Reason, group: x.group, vm: a.Key}, now)
	c.until = now.Add(wait)
	x.put(failure{action: a, fault: fault}, c)
	return wait
}
