package pace

import "time"

// key names a window.
type key struct {
	kind           Kind
	source, target string
}

// narrow reports whether it is the window of a source or a target.
func (k key) narrow() bool { return k.source != "" || k.target != "" }

// scale is what a heavy action counts in the window.
func (k key) scale() int {
	if k.narrow() {
		return 2
	}
	return 1
}

// keys are the windows that an action is in, the narrowest first.
func (w Work) keys() []key {
	keys := make([]key, 0, 3)
	if w.Source != "" {
		keys = append(keys, key{kind: w.Kind, source: w.Source})
	}
	if w.Target != "" {
		keys = append(keys, key{kind: w.Kind, target: w.Target})
	}
	return append(keys, key{kind: w.Kind})
}

// cost is what the action counts in a window.
func (w Work) cost(k key) int {
	if w.Light {
		return 1
	}
	return k.scale()
}

// window bounds the actions of one kind, source or target.
type window struct {
	scale      int
	size, most int
	begin      int
	used       int
	last       time.Time // when an action began last
	// fullAt is when it was last used up, and peak how much of it was used then.
	fullAt time.Time
	peak   int
	// earned is what has ended well since it last grew, while it was used up.
	earned int
	took   lately // of the actions in it
	// queued and ran are how long the last actions waited and ran, the older ones less and less.
	queued, ran time.Duration
	// late is by how much the last actions took longer than at best, the older ones less and less.
	late time.Duration
	// shrunk is when it shrank last, why, whether because actions were queued, and to what; zero if it never did.
	shrunk struct {
		at     time.Time
		why    string
		queued bool
		to     int
	}
}

func newWindow(scale, begin, most int) *window {
	return &window{scale: scale, size: scale * begin, begin: scale * begin, most: scale * most}
}

// peakSince is the most that was used of it since then, as far as it was used up.
func (x *window) peakSince(then time.Time) int {
	if x.fullAt.Before(then) {
		return 0
	}
	return x.peak
}

// started notes an action that has started at once.
func (x *window) started(r *Running, cost int) {
	if !x.fullAt.Before(r.began) && x.shrunk.at.IsZero() && x.size < startedMost*x.scale {
		x.earn(cost, x.scale)
	}
}

// ended notes an action without trouble.
func (x *window) ended(r *Running, cost int, took time.Duration) {
	x.took.add(took)
	switch {
	case x.fullAt.Before(r.began): // it was not used up, so it has not shown that it could be more
	case r.began.Before(x.shrunk.at):
	case x.shrunk.at.IsZero():
		x.earn(cost, x.scale)
	default:
		needs := x.size
		if !x.shrunk.queued {
			needs *= 2
		}
		x.earn(cost, needs)
	}
}

// earn notes what an action has earned; what it needs to grow by one is needs.
func (x *window) earn(cost, needs int) {
	if x.earned += cost; x.earned >= needs {
		x.earned -= needs
		x.size = min(x.size+x.scale, x.most)
	}
}

// note notes by how much an action was late, and how long it waited and ran, unless that says nothing about the present number.
func (x *window) note(r *Running, o Outcome, late time.Duration) {
	x.late += (late - x.late) / 8
	if !r.began.Before(x.shrunk.at) {
		x.queued, x.ran = x.queued*7/8+o.Queued, x.ran*7/8+o.Ran
	}
}

// floor is the least that the window shrinks to.
func (x *window) floor() int { return min(floor*x.scale, x.most) }

// shrink makes the window smaller after trouble, and reports whether it did. used is the most that was used of it.
//
// It shrinks to a half. But where the trouble is that actions are queued, the share of the time in which they ran says how many
// run at once (Little's law): the window shrinks to that, by an eighth at least and a half at most. (Always halved, it would use
// up to a sixth less than the far side can carry out, since the room for a queue is much smaller than TCP's.) From then on it grows by
// one for each full window; but for two where the far side did not say that it queues, as its actions show only later that they waited.
func (x *window) shrink(r *Running, used int, now time.Time, c cause) bool {
	if at := x.shrunk.at; !at.IsZero() && (r.began.Before(at) || now.Sub(at) < x.took.middle()) {
		return false
	}
	from, ran := min(x.size, used), c.ran
	if all := x.queued + x.ran; c.queued && all > 0 {
		ran = float64(x.ran) / float64(all)
	}
	to := max(from/2, min(from*7/8, int(float64(from)*ran)))
	to = max(to-to%x.scale, x.floor())
	x.earned, x.queued, x.ran = 0, 0, 0
	smaller := to < x.size
	if smaller || x.shrunk.at.IsZero() { // at the floor nothing begins anew: what takes long there is measured on
		x.size = min(x.size, to)
		x.shrunk.at, x.shrunk.why, x.shrunk.queued, x.shrunk.to = now, c.why, c.queued, x.size
	}
	return smaller
}
