package limiter

import "time"

// latency tracks how long similar actions take, without the time for which vCenter says that it queued them.
//
// If vCenter doesn't report the queueing, actions only seem to take longer: then the share best/usual of the running actions really runs
// (Little's law), and the limit is cut to that share. Each cut forgets an eighth of the best time; with more, the queue would become the
// usual time, since a cut may leave a part of the queue. At the minimum of the limit, none of the server's actions is queued: the times
// measured then are the actions' own, on a datastore that became slower, for example.
type latency struct {
	best, before time.Duration // the best time since the last cut, and of all time before
	usual        time.Duration // smoothed, from the best since the last cut
	queued, ran  time.Duration // how long recent actions were queued and ran, smoothed
	cutAt        time.Time
	last         time.Time
}

const (
	// usualShare and queuedShare are the inverse of an action's weight in usual, and in queued and ran.
	usualShare, queuedShare = 4, 8
	// Actions are slow if they take slowFifths fifths of the best time, and slowLeast longer than it, so that short actions can vary.
	slowFifths, slowLeast = 8, 5 * time.Second
)

// add adds the durations of an action that began at began, and reports whether actions are slow.
func (x *latency) add(began time.Time, queued, took time.Duration) (slow bool) {
	x.queued += (queued - x.queued) / queuedShare
	x.ran += (took - x.ran) / queuedShare
	if began.Before(x.cutAt) {
		return false
	}
	if x.best == 0 || took < x.best {
		x.best = took
	}
	if x.usual == 0 {
		x.usual = took
	}
	x.usual += (took - x.usual) / usualShare
	return x.usual > x.known()*slowFifths/5 && x.usual-x.known() > slowLeast
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
	x.usual, x.cutAt = x.known(), now
	if x.before += x.before / 8; least || x.before == 0 || x.best < x.before {
		x.before = x.best
	}
	x.best = 0
}
