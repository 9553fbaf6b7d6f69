package loop

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/retry"
)

// This file decides when a group's next call comes. The status follows vCenter only with the next hook call, so the sooner that comes, the
// truer the status. But calls cost: each takes about 10 ms of processor time, most of it Metacontroller's and the API server's. With
// Metacontroller 4.17.2, five workers make about 118 a second over all groups, and with its default client limits (QPS 5) only five, so that a
// new group would wait for those that have no news. So groups share the calls:
//
//	the group                                      is called again after
//	in progress, as its plan says, or steps run    busySoonest, a twentieth of the time for which its status hasn't changed, up to busyLongest, or
//	                                               its share of the calls of lively groups
//	in progress, but its turn is still to come     the same, with all lively groups' share
//	whose status changed within livelyFor          settledSoonest, or its share of the calls that those in progress leave, but no later than its
//	                                               plan asks
//	otherwise                                      twice as long as the last time (atRest), or its share of the calls of groups at rest, but no
//	                                               later than its plan asks
//	refused                                        Metacontroller's own back-off
//
// and never later than --resync. How late a plan asks for it is in sync/planner/tell/nextcall.go.
const (
	busySoonest, busyLongest = 250 * time.Millisecond, 5 * time.Second
	settledSoonest           = time.Second
	livelyFor                = 30 * time.Second
	// livelyMost bounds the calls a second that lively groups share: a third of what Metacontroller can make, because edits and new groups
	// need calls, too, and the API server's processor time. restMost bounds those of the groups at rest: a fifth of a core.
	livelyMost, restMost = 40., 22.
	// busyPart is the part of the lively calls that groups in progress share while others have changed lately or wait for their turn; these share
	// the rest. People wait for groups in progress: the last of 200 that come up must not share all calls with 199 that are up.
	busyPart = .75
	// overdue is when a call is late. Each late one lowers the number of calls by a hundredth, and each other one raises it by callsStep: so it
	// stays at livelyMost while fewer than four of ten are late, because calls that another replica answered look late. Where calls are
	// few, punctual ones raise it so that it is back within callsRegain.
	overdue, callsStep, callsRegain = time.Second, .25, 20 * time.Second
	// countEvery is how often the groups are counted. It need not follow busySoonest.
	countEvery = 250 * time.Millisecond
)

// atRest is the time between two calls of a group at rest. It counts calls, not failures.
var atRest = retry.Backoff{First: 2 * settledSoonest, Most: 9500 * time.Millisecond}

// schedule is when the group is called, and planned, again.
type schedule struct {
	due     time.Time // when the next call is due
	busy    bool      // steps run, or its plan says that it is in progress
	changed time.Time // when an answer last had another status than the one before
	quiet   time.Time // since when it is in progress without such a change
	rested  int       // how many calls the group has had at rest
	wakes   time.Time // the next time at which it is planned again by itself
}

// lively reports whether the group is in progress, or its status changed lately.
func (s *schedule) lively(now time.Time) bool { return s.busy || now.Sub(s.changed) < livelyFor }

// calls are how many calls a second the server asks for. Loop.mu guards them.
type calls struct {
	lively, rest callRate
	busy         int // the lively groups that are in progress, and whose turn has come
	counted      time.Time
}

func newCalls() calls {
	return calls{lively: callRate{now: livelyMost, most: livelyMost}, rest: callRate{now: restMost, most: restMost}}
}

// callRate is how many calls a second some groups share.
type callRate struct {
	now, most float64
	groups    int       // that share it
	heard     time.Time // when the last call came
}

// share is the time between two calls of each group.
func (r *callRate) share() time.Duration {
	return time.Duration(float64(r.groups) / r.now * float64(time.Second))
}

// pauses are the times between two calls of each group in progress, and of each other lively one.
func (c *calls) pauses() (busy, others time.Duration) {
	rest := c.lively.groups - c.busy
	if rest == 0 {
		return max(busySoonest, c.lively.share()), settledSoonest
	}
	taken := min(c.lively.now*busyPart, float64(c.busy)/busySoonest.Seconds())
	if c.busy > 0 {
		busy = time.Duration(float64(c.busy) / taken * float64(time.Second))
	}
	return max(busySoonest, busy), max(settledSoonest, time.Duration(float64(rest)/(c.lively.now-taken)*float64(time.Second)))
}

func (r *callRate) lower() { r.now = max(1, r.now*.99) }

func (r *callRate) raise(now time.Time) {
	r.now = min(r.now+max(callsStep, r.most*float64(now.Sub(r.heard))/float64(callsRegain)), r.most)
}

// heard notes a call of a group. Where Metacontroller is late for lively groups, those at rest have fewer calls, too.
func (c *calls) heard(now time.Time, of *schedule) {
	if of.due.IsZero() { // it was not asked for
		return
	}
	late, r := now.Sub(of.due) > overdue, &c.rest
	if of.lively(of.due) {
		r = &c.lively
	}
	switch {
	case !late:
		r.raise(now)
	case r == &c.lively:
		c.lively.lower()
		c.rest.lower()
	default:
		c.rest.lower()
	}
	r.heard = now
}

// count counts the groups that are called, once in a while.
func (c *calls) count(groups map[types.UID]*group, lease time.Duration, now time.Time) {
	if now.Sub(c.counted) < countEvery {
		return
	}
	c.counted, c.lively.groups, c.rest.groups, c.busy = now, 0, 0, 0
	for _, g := range groups {
		switch {
		case g.answers.finalized || now.Sub(g.lease.renewed) > lease:
		case g.schedule.lively(now):
			c.lively.groups++
			if g.schedule.busy && !g.queues() {
				c.busy++
			}
		default:
			c.rest.groups++
		}
	}
}

// callAgain decides when the group's next call is to come. news: this answer's status differs from that of the one before. says: the call
// is only to end the group, whose last Events this answer has; a single call needs no share.
func (l *Loop) callAgain(g *group, r *plan.Result, news, says bool, now time.Time) {
	if r.Refusal != nil {
		g.schedule.busy, g.schedule.due = false, time.Time{}
		return
	}
	was := g.schedule.busy
	g.schedule.busy = r.InProgress || len(g.runs) > 0
	if news {
		g.schedule.changed = now
	}
	if news || !was {
		g.schedule.quiet = now
	}
	l.calls.count(l.groups, l.cfg.Lease, now)
	rested := 0
	busy, others := l.calls.pauses()
	late := min(now.Sub(g.schedule.quiet)/20, busyLongest)
	switch {
	case g.schedule.busy && g.queues():
		r.Resync = max(busySoonest, l.calls.lively.share(), late)
	case g.schedule.busy:
		r.Resync = max(busy, late)
	case g.schedule.lively(now):
		r.Resync = min(r.Resync, others)
	default:
		rested = g.schedule.rested + 1
		r.Resync = min(r.Resync, max(atRest.After(rested), l.calls.rest.share()))
	}
	g.schedule.rested = rested
	r.Resync = min(r.Resync, l.cfg.Resync)
	if says {
		r.Resync = sayAgain
	}
	g.schedule.due = now.Add(r.Resync)
}
