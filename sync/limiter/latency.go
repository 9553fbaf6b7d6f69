package limiter

import "time"

// latency is how long actions take that take about as long as each other, without the time for which vCenter says that it queued them.
//
// Where vCenter does not show what it queues, actions only take longer: of those that run, best/usual run (Little's law), and the limit
// is cut to those. The best is forgotten by an eighth at each cut: forgotten sooner, the queue would become the usual, since a cut may
// leave some of it. Where the limit is the least already, nothing of ours is queued: what is measured then is what an action takes, on a
// datastore that became slower, say.
type latency struct {
	best, before time.Duration // since the last cut, and the best of all before
	usual        time.Duration // smoothed, from the best since the last cut
	queued, ran  time.Duration // for how long the last ones were queued and ran, smoothed
	cutAt        time.Time
	last         time.Time
}

const (
	// usualShare and queuedShare are the inverse of the weight with which an action counts in usual, and in queued and ran.
	usualShare, queuedShare = 4, 8
	// slowFifths is how many fifths of the best time actions take when they are slow, and slowLeast how much longer, so that short ones can vary.
	slowFifths, slowLeast = 8, 5 * time.Second
)

// add adds the durations of an action that began then, and reports whether actions are slow.
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

// known is what such an action takes at best.
func (x *latency) known() time.Duration {
	switch {
	case x.before == 0:
		return x.best
	case x.best == 0:
		return x.before
	}
	return min(x.best, x.before)
}

// cut notes that a limit is cut because actions are slow. least reports whether it was the least already.
func (x *latency) cut(now time.Time, least bool) {
	x.usual, x.cutAt = x.known(), now
	if x.before += x.before / 8; least || x.before == 0 || x.best < x.before {
		x.before = x.best
	}
	x.best = 0
}
