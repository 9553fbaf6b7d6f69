package loop

import "time"

// A status shows what vCenter did only with the next hook call, so the sooner that comes, the truer the status. But calls cost: with
// Metacontroller 4.17.2 five workers make about 118 a second over all groups, and with its default client limits (QPS 5) only five,
// so that a new group would wait for those of groups that have nothing to tell. cadence finds how many calls a second Metacontroller
// makes in time, and divides them among the groups: a few groups are called every second, and thousands as seldom as the plan allows.

// callsMost bounds the calls that the server asks for, in calls a second over all groups: less than half of what Metacontroller can
// make, because edits and new groups need calls, too.
const callsMost = 40

const (
	// How often a group is called at most while its members change, and while they don't.
	soonestBusy, soonestSettled = 500 * time.Millisecond, time.Second
	// busyMost is the longest time between the calls of a group that is busy, as its plan has it.
	busyMost = 2 * time.Second
	// cadenceEvery is how long calls are watched before their number changes, which grows by cadenceStep calls a second.
	cadenceEvery, cadenceStep = 5 * time.Second, 4
	// overdue is when a call is late, and lateMost is the share of late calls with which Metacontroller keeps up. (Another replica may
	// have got the call that this one waits for, so with two replicas half of the calls may seem late.)
	overdue, lateMost = time.Second, 0.75
)

// cadence is how many calls a second the server asks for, over all groups. Loop.mu guards it.
type cadence struct {
	rate        float64 // calls a second; 0: only those that the plans ask for
	since       time.Time
	calls, late int // since then; late only counts calls that were asked for
}

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

// next returns when a group's next call is to come, one of so many. Its plan asks for one after longest.
func (c *cadence) next(longest time.Duration, groups int) time.Duration {
	soonest := soonestSettled
	if longest <= busyMost {
		soonest = soonestBusy
	}
	if c.rate == 0 || longest <= soonest {
		return longest
	}
	share := time.Duration(float64(groups) / c.rate * float64(time.Second))
	return min(max(share, soonest), longest)
}
