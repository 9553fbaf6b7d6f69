package loop

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A status that is read between two actions costs as much as the last one: a hook call, writes of status and children, and the call
// that follows the writes. So a group that is worked on is called when all of it is expected to have ended, if every action takes as
// long as those of its kind took lately.

// follows is what comes after an action of a kind, for the same member or folder.
var follows = map[plan.Op]plan.Op{plan.Clone: plan.PowerOn, plan.ShutdownGuest: plan.Destroy, plan.PowerOff: plan.Destroy, plan.RemoveFolder: plan.ConfirmGone}

// ended takes note of how long an action took that succeeded.
func (c *cadence) ended(op plan.Op, took time.Duration) {
	if was, known := c.took[op]; known {
		took = (3*was + took) / 4
	}
	c.took[op] = took
}

// unlearned is how long an action is expected to take at first. That is soon corrected: one that should have ended is expected after as
// long as it is overdue.
const unlearned = 50 * time.Millisecond

// expected is how long an action of a kind is expected to take; nothing for none.
func (c *cadence) expected(op plan.Op) time.Duration {
	took, learned := c.took[op]
	if !learned && op != "" {
		return unlearned
	}
	return took
}

// finish is how long it takes until all actions of a group have ended, those that run and those that are planned; zero if there are
// none. slots are those of a kind of actions; groups that are busy share them equally.
func (c *cadence) finish(g *group, planned []plan.Action, slots func(plan.Op) int, now time.Time) time.Duration {
	var work, longest time.Duration
	members, ending := 0, !g.finalizing
	var last plan.Op // to end
	add := func(op plan.Op, passed time.Duration) {
		left := (c.expected(op) - passed).Abs() + c.expected(follows[op])
		if op != plan.ConfirmGone { // which takes no slot
			work += left
		}
		if left >= longest {
			longest, last = left, op
		}
		members++
		ending = ending || op == plan.RemoveFolder || op == plan.ConfirmGone
	}
	for vm, a := range g.running {
		if _, stands := g.stalled[vm]; !stands {
			add(a.Op, now.Sub(g.began[vm]))
		}
	}
	for i := range planned {
		if _, runs := g.running[planned[i].VM]; !runs {
			add(planned[i].Op, 0)
		}
	}
	if members == 0 {
		return 0
	}
	atOnce := min(float64(members), float64(slots(last))/float64(max(c.busy, 1)))
	left := max(longest, time.Duration(float64(work)/atOnce), 1)
	if !ending { // the folder goes after the members
		left += c.expected(plan.RemoveFolder) + c.expected(plan.ConfirmGone)
	}
	return left
}
