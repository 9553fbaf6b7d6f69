package loop

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A status shows what vCenter did only with the next hook call, so the sooner that comes, the truer the status. But calls cost: with
// Metacontroller 4.17.2 five workers make about 118 a second over all groups, and with its default client limits (QPS 5) only five,
// so that a new group would wait for those of groups that have nothing to tell. cadence finds how many calls a second Metacontroller
// makes in time, and divides them among the groups: a few groups are called every second, and thousands as seldom as the plan allows.
// A group with actions under way is called when they are expected to have ended (finish.go).

// callsMost bounds the calls that the server asks for, in calls a second over all groups: less than half of what Metacontroller can
// make, because edits and new groups need calls, too. For groups whose actions are about to end the server asks for as many again.
const callsMost = 40

const (
	// How often a group is called at most while actions are about to end, and while none are.
	soonestBusy, soonestSettled = 300 * time.Millisecond, time.Second
	// busyMost is the longest time between the calls of a group that is busy, as its plan has it.
	busyMost = 2 * time.Second
	// afterEnd is how long after the expected end of the actions the call comes.
	afterEnd = 100 * time.Millisecond
	// cadenceEvery is how long calls are watched before their number changes, which grows by cadenceStep calls a second.
	cadenceEvery, cadenceStep = 5 * time.Second, 4
	// overdue is when a call is late, and lateMost is the share of late calls with which Metacontroller keeps up. (Another replica may
	// have got the call that this one waits for, so with ten replicas nine calls in ten may seem late.)
	overdue, lateMost = time.Second, 0.9
	// countEvery is how often the groups are counted.
	countEvery = 250 * time.Millisecond
	// A group that is deleted, and worked on, is gone with the call after its last step, and takes no calls any more. So such groups
	// share goingMore times as many calls as settled ones, and soonestGone is how often one is called at most.
	goingMore, soonestGone = 1.25, 50 * time.Millisecond
)

// cadence is how many calls a second the server asks for, over all groups. Loop.mu guards it.
type cadence struct {
	rate        float64 // calls a second; 0: only those that the plans ask for
	since       time.Time
	calls, late int // since then; late only counts calls that were asked for

	took map[plan.Op]time.Duration // how long actions took lately, by kind

	counted      time.Time
	groups, busy int // at that time: groups that are called, and those of them that are busy
}

func newCadence() cadence { return cadence{rate: callsMost, took: map[plan.Op]time.Duration{}} }

// heard takes note of a call that was due at a time (zero: it was not asked for).
func (c *cadence) heard(now, due time.Time) {
	if c.since.IsZero() {
		c.since = now
	}
	c.calls++
	if !due.IsZero() && now.Sub(due) > overdue {
		c.late++
	}
	passed := now.Sub(c.since)
	switch {
	case passed < cadenceEvery:
		return
	case float64(c.late) > lateMost*float64(c.calls): // ask for less than were made
		if c.rate = min(c.rate, float64(c.calls)/passed.Seconds()) / 2; c.rate < 1 {
			c.rate = 0
		}
	default:
		c.rate = min(c.rate+cadenceStep, callsMost)
	}
	c.since, c.calls, c.late = now, 0, 0
}

// count counts the groups that are called, once in a while.
func (c *cadence) count(groups map[types.UID]*group, lease time.Duration, now time.Time) {
	if !c.counted.IsZero() && now.Sub(c.counted) < countEvery {
		return
	}
	c.counted, c.groups, c.busy = now, 0, 0
	for _, g := range groups {
		if g.finalized || now.Sub(g.renewed) > lease {
			continue
		}
		if c.groups++; g.busy {
			c.busy++
		}
	}
}

// next returns when a group's next call is to come. Its plan asks for one after longest, and its actions are expected to end after
// finish (zero: unknown). goes: it is being deleted.
func (c *cadence) next(longest, finish time.Duration, busy, goes bool) time.Duration {
	if busy { // what Metacontroller could not make anyway is not asked for
		longest = max(longest, share(c.busy, callsMost))
	}
	if c.rate == 0 {
		return longest
	}
	settled, soonest := max(share(c.groups, c.rate), soonestSettled), soonestBusy
	if goes && finish > 0 {
		settled, soonest = max(share(c.busy, goingMore*c.rate), soonestBusy), soonestGone
	} else if finish > 0 {
		finish += afterEnd
	}
	if longest = min(settled, longest); finish == 0 {
		return longest
	}
	return min(max(finish, soonest, share(c.busy, 2*c.rate)), longest)
}

// share is the time between two calls of each of so many groups that share so many calls a second.
func share(groups int, rate float64) time.Duration {
	return time.Duration(float64(groups) / rate * float64(time.Second))
}
