package limiter

import "time"

// latency tracks how long similar actions take, without the time for which vCenter says that it queued them.
//
// If vCenter doesn't report the queueing, actions only seem to take longer: then the share best/usual of the running actions really runs
// (Little's law), and the limit is cut to that share. Each cut forgets an eighth of the best time; with more, the queue would become the
// usual time, since a cut may leave a part of the queue. At the minimum of the limit, none of the server's actions is queued: the times
// measured then are the actions' own, on a datastore that became slower, for example.
//
// Whose actions take longer, may have made them longer: by larger disks, for example. So each tenant's are compared with the best time of all, and a
// tenant's slow actions are ignored while another tenant's are fast (Limiter.contradicted).
type latency struct {
	best, before time.Duration            // the best time since the last cut, and of all time before
	usual        map[string]time.Duration // by tenant; smoothed, from the best since the last cut
	ended        map[string]time.Time     // by tenant: when an action last ended
	queued, ran  time.Duration            // how long recent actions were queued and ran, smoothed
	cutAt        time.Time
	last         time.Time
}

const (
	// usualShare and queuedShare are the inverse of an action's weight in usual, and in queued and ran.
	usualShare, queuedShare = 4, 8
	// Actions are slow if they take slowFifths fifths of the best time, and slowLeast longer than it, so that short actions can vary.
	slowFifths, slowLeast = 8, 5 * time.Second
)

func newLatency() *latency {
	return &latency{usual: map[string]time.Duration{}, ended: map[string]time.Time{}}
}

// add adds the durations of a tenant's action, which began at began, and reports whether the tenant's actions are slow.
func (x *latency) add(tenant string, began, now time.Time, queued, took time.Duration) (slow bool) {
	x.ended[tenant] = now
	x.queued += (queued - x.queued) / queuedShare
	x.ran += (took - x.ran) / queuedShare
	if began.Before(x.cutAt) {
		return false
	}
	if x.best == 0 || took < x.best {
		x.best = took
	}
	usual, has := x.usual[tenant]
	if !has {
		usual = took
	}
	x.usual[tenant] = usual + (took-usual)/usualShare
	return x.slow(tenant)
}

// slow reports whether a tenant's actions are slow.
func (x *latency) slow(tenant string) bool {
	usual := x.usual[tenant]
	return usual > x.known()*slowFifths/5 && usual-x.known() > slowLeast
}

// known returns the best time of such an action.
func (x *latency) known() time.Duration {
	switch {
	case x.before == 0:
		return x.best
	case x.best == 0:
		return x.before
	}
	return min(x.best, x.before)
}

// cut records that a limit is cut because actions are slow. least reports whether the limit was already at its minimum.
func (x *latency) cut(now time.Time, least bool) {
	for tenant := range x.usual {
		x.usual[tenant] = x.known()
	}
	x.cutAt = now
	if x.before += x.before / 8; least || x.before == 0 || x.best < x.before {
		x.before = x.best
	}
	x.best = 0
}
