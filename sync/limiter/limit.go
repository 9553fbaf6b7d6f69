package limiter

import (
	"fmt"
	"math"
	"time"
)

// key names a limit.
type key struct {
	kind           Kind
	source, target string
}

// keys returns the limits that an action counts against, the narrowest first.
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

// limit bounds the actions of one kind, from one source or to one target.
type limit struct {
	size, begin, most int
	used              int
	last, fullAt      time.Time // when an action last began, and when the limit was last used up
	earned            int       // actions that have ended well since the limit last grew
	ended, congested  float64   // how many actions have ended, at most eight, and the share of them that met congestion
	// cutAt is when the limit was last cut, cutTo to what, and why; zero if it never was.
	cutAt  time.Time
	cutWhy string
	cutTo  int
}

// note records whether an action met congestion.
func (x *limit) note(congested bool) {
	x.ended = min(x.ended+1, 8)
	x.congested -= x.congested / x.ended
	if congested {
		x.congested += 1 / x.ended
	}
}

// grow records an action that ended well, and raises the limit if it was used up.
func (x *limit) grow(r *Running) {
	if x.fullAt.Before(r.began) || r.began.Before(x.cutAt) {
		return // the limit wasn't used up, so the action doesn't show that vCenter can take more
	}
	needs := 1
	if !x.cutAt.IsZero() {
		needs = x.size
	}
	if x.earned++; x.earned >= needs {
		x.earned = 0
		x.size = min(x.size+1, x.most)
	}
}

// cut lowers the limit because of an action, and reports whether it did. An action that began before the last cut doesn't count, because it
// says nothing about the present limit.
func (x *limit) cut(r *Running, now time.Time, why string, keep float64) bool {
	if r.began.Before(x.cutAt) {
		return false
	}
	was, from := x.size, min(x.size, x.used)
	if !x.fullAt.Before(r.began) {
		from = x.size
	}
	x.size = min(x.size, max(int(math.Round(float64(from)*keep)), min(floor, x.most)))
	x.earned, x.cutAt, x.cutWhy, x.cutTo = 0, now, why, x.size
	return x.size < was
}

const atMost = "--slots permits no more"

// reason says why the limit has its value.
func (x *limit) reason() string {
	switch {
	case x.cutAt.IsZero() && x.size >= x.most:
		return atMost
	case x.cutAt.IsZero() && x.size == x.begin:
		return "it is the initial limit"
	case x.cutAt.IsZero():
		return "it grows, because vCenter keeps up"
	}
	since := fmt.Sprintf("%s at %s", x.cutWhy, x.cutAt.UTC().Format("2006-01-02 15:04 UTC"))
	switch {
	case x.size >= x.most:
		return fmt.Sprintf("%s; it was %d because %s", atMost, x.cutTo, since)
	case x.size > x.cutTo:
		return fmt.Sprintf("it grows again, from %d, because %s", x.cutTo, since)
	}
	return since
}
