package loop

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A process may be suspended for any time: it was stopped, or its node was suspended or starved. It does not notice that by itself, or what
// other replicas of the server did during that time. Hook calls wait in its sockets, although Metacontroller gave them up long ago: they would look
// fresh, and one for a group that is gone would recreate it, and no later call would remove it. So the loop expects a tick each half second:
// when it misses ticks for too long, all leases end, and calls that come right afterwards renew none.
const (
	tickEvery = 500 * time.Millisecond
	// suspendedAfter is the shortest gap that counts as a suspension. It must be well below 10 s, after which Metacontroller gives a call up
	// and can call another replica.
	suspendedAfter = 3 * time.Second
	// staleFor is how long handling the calls that waited can take.
	staleFor = time.Second
)

// suspension records that the process was suspended. Loop.mu guards it.
type suspension struct {
	last       time.Time // the last tick; zero before Run
	staleUntil time.Time // until then, calls may be ones that waited
}

// watchSuspension takes each tick until ctx ends.
func (l *Loop) watchSuspension(ctx context.Context) {
	ticks := l.cfg.Ticks
	if ticks == nil {
		ticker := time.NewTicker(tickEvery)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		l.mu.Lock()
		now := time.Now()
		l.checkSuspension(now)
		l.suspension.last = now
		l.mu.Unlock()
		select {
		case <-ticks:
		case <-ctx.Done():
			return
		}
	}
}

// checkSuspension ends all leases if the process was suspended. It reports whether a call that comes now may be one that waited.
// The caller holds l.mu.
func (l *Loop) checkSuspension(now time.Time) (stale bool) {
	if !l.suspension.last.IsZero() && elapsed(l.suspension.last, now) > suspendedAfter {
		l.suspension.last, l.suspension.staleUntil = now, now.Add(staleFor)
		for _, g := range l.groups {
			g.lease.expire(now, l.cfg.Lease)
		}
		l.cfg.Log.Warn().Msg("the process was suspended; dropping all leases until the next hook calls")
	}
	return now.Before(l.suspension.staleUntil)
}

// elapsed is the time between two times, by the monotonic clock or the wall clock, whichever is longer: the former
// stops while a machine is suspended (https://pkg.go.dev/time#hdr-Monotonic_Clocks).
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// leased reports whether the loop is allowed to act for the group. The caller holds l.mu.
func (l *Loop) leased(g *group, now time.Time) bool {
	l.checkSuspension(now)
	return g != nil && now.Sub(g.lease.renewed) <= l.cfg.Lease
}

// Leased reports whether a hook call permits the group's step for that Action.Key to continue now. A step asks right before each
// of its calls: between two of them the process may have been suspended, and another replica acted. A step that began
// before the group was deleted must not continue: the lease of the deletion does not permit creating members, and the replica that ends
// the group waits only one lease for replicas that haven't seen the deletion. The same holds for a step that creates the group's folder,
// once it would no longer begin: if there is no folder, nothing waits for it. A step that only reads needs no lease.
func (l *Loop) Leased(uid types.UID, vm string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, now := l.groups[uid], time.Now()
	if g != nil && g.runs.op(vm) == plan.CreateFolder && !plan.MayCreateFolder(now, g.lease.renewed, g.folders.seen) {
		return false
	}
	return l.leased(g, now) && !g.runs.isOutdated(vm) || l.confirming(uid)
}
