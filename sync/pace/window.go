package pace

import (
	"slices"
	"time"
)

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
	took   series // of the actions in it
	// queued and ran are how long the last actions waited and ran, the older ones less and less.
	queued, ran time.Duration
	// late is by how much the last actions took longer than at best, the older ones less and less.
	late time.Duration
	// shrunk is when it shrank last, why, and to what; zero if it never did.
	shrunk struct {
		at  time.Time
		why string
		to  int
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
		x.earn(cost, x.size)
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

// shrink makes the window smaller after trouble, and reports whether it did. used is the most that was used of it.
//
// It shrinks to a half. But where the trouble is that actions are queued, the share of the time in which they ran says how many
// run at once (Little's law): the window shrinks to that, by an eighth at least and a half at most. (Always halved, it would use
// up to a sixth less than the far side can carry out, since the room for a queue is much smaller than TCP's.)
func (x *window) shrink(r *Running, used int, now time.Time, o Outcome, why string) bool {
	if at := x.shrunk.at; !at.IsZero() && (r.began.Before(at) || now.Sub(at) < x.took.median()) {
		return false
	}
	from := min(x.size, used)
	to := from / 2
	if all := x.queued + x.ran; o.Queued > queuedMost && all > 0 && o.Overload == "" {
		to = max(to, min(from*7/8, int(float64(from)*float64(x.ran)/float64(all))))
	}
	to = max(to-to%x.scale, min(floor*x.scale, x.most))
	smaller := to < x.size
	x.size, x.earned, x.queued, x.ran = min(x.size, to), 0, 0, 0
	x.shrunk.at, x.shrunk.why, x.shrunk.to = now, why, x.size
	return smaller
}

// seriesMost is how many of the last durations are kept.
const seriesMost = 20

// series are the last durations of actions that take about as long.
type series struct {
	took []time.Duration // the oldest first
	slow int             // in a row
	last time.Time
}

// add adds a duration. best is what such an action takes at best, by the best tenth of those before; zero if they are too few.
// thrice reports whether the last three were too slow.
func (s *series) add(took time.Duration) (best time.Duration, thrice bool) {
	if len(s.took) >= seriesLeast {
		best = s.rank(len(s.took) / 10)
	}
	if s.took = append(s.took, took); len(s.took) > seriesMost {
		s.took = slices.Delete(s.took, 0, 1)
	}
	if best == 0 || !tooSlow(took, best) {
		s.slow = 0
		return best, false
	}
	if s.slow++; s.slow < 3 {
		return best, false
	}
	s.slow = 0
	return best, true
}

// seriesLeast is how many durations tell what is usual.
const seriesLeast = 5

// slowLeast is how much longer than at best an action must take to be slow, so that short ones may vary.
const slowLeast = 5 * time.Second

func tooSlow(took, best time.Duration) bool { return took > 2*best && took-best > slowLeast }

func (s *series) median() time.Duration {
	if len(s.took) == 0 {
		return 0
	}
	return s.rank(len(s.took) / 2)
}

func (s *series) rank(i int) time.Duration { return slices.Sorted(slices.Values(s.took))[i] }
