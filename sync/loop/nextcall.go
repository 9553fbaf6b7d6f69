package loop

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// This file decides when a group's next call comes. The status follows vCenter only with the next hook call, so the sooner that comes, the
// truer the status. But calls cost: with Metacontroller 4.17.2, five workers make about 118 a second over all groups, and with its default
// client limits (QPS 5) only five, so that a new group would wait for those that have no news. So groups share the calls:
//
//	the group                                      is called again after
//	in progress, as its plan says, or steps run    busySoonest, or its share of the calls among all that are in progress
//	otherwise                                      settledSoonest, or its share of the calls among all groups, but no later than its plan asks
//	refused                                        Metacontroller's own back-off
//
// and never later than --resync. How late a plan asks for it is in sync/planner/nextcall.go.
const (
	busySoonest, settledSoonest = 250 * time.Millisecond, time.Second
	// callsMost bounds the calls a second that the groups share: half of what Metacontroller can make, because edits and new groups
	// need calls, too.
	callsMost = 60.
	// overdue is when a call is late. Each late one lowers the number of calls by a hundredth, and each other one raises it by callsStep: so it
	// stays at callsMost while fewer than four of ten are late, as calls that another replica of the server got seem to be.
	overdue, callsStep = time.Second, .25
	// countEvery is how often the groups are counted. It need not follow busySoonest.
	countEvery = 250 * time.Millisecond
)

// schedule is when the group is called, and planned, again.
type schedule struct {
	due   time.Time // when the next call is due
	busy  bool      // steps run, or its plan says that it is in progress
	wakes time.Time // the next time at which it is planned again by itself
}

// calls is how many calls a second the server asks for. Loop.mu guards it.
type calls struct {
	rate         float64
	counted      time.Time
	groups, busy int // at that time: groups that are called, and those of them that are in progress
}

// heard notes a call that was due at a time (zero: it was not asked for).
func (c *calls) heard(now, due time.Time) {
	switch {
	case due.IsZero():
	case now.Sub(due) > overdue:
		c.rate = max(1, c.rate*.99)
	default:
		c.rate = min(c.rate+callsStep, callsMost)
	}
}

// count counts the groups that are called, once in a while.
func (c *calls) count(groups map[types.UID]*group, lease time.Duration, now time.Time) {
	if now.Sub(c.counted) < countEvery {
		return
	}
	c.counted, c.groups, c.busy = now, 0, 0
	for _, g := range groups {
		if !g.answers.finalized && now.Sub(g.lease.renewed) <= lease {
			c.groups++
			if g.schedule.busy {
				c.busy++
			}
		}
	}
}

// share is the time between two calls of each of so many groups.
func (c *calls) share(groups int) time.Duration {
	return time.Duration(float64(groups) / c.rate * float64(time.Second))
}

// callAgain decides when the group's next call is to come. says: it is only to end the group, whose last Events this answer has; a single
// call needs no share.
func (l *Loop) callAgain(g *group, r *plan.Result, says bool, now time.Time) {
	if r.Refusal != nil {
		g.schedule.busy, g.schedule.due = false, time.Time{}
		return
	}
	g.schedule.busy = r.InProgress || len(g.runs) > 0
	l.calls.count(l.groups, l.cfg.Lease, now)
	if g.schedule.busy {
		r.Resync = max(busySoonest, l.calls.share(l.calls.busy))
	} else {
		r.Resync = min(r.Resync, max(settledSoonest, l.calls.share(l.calls.groups)))
	}
	r.Resync = min(r.Resync, l.cfg.Resync)
	if says {
		r.Resync = sayAgain
	}
	g.schedule.due = now.Add(r.Resync)
}
