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

// keys are the limits that an action counts in, the narrowest first.
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

// limit bounds the actions of one kind, source or target.
type limit struct {
	size, begin, most int
	used              int
	last, fullAt      time.Time // when an action began last, and when it was used up last
	earned            int       // actions that have ended well since it grew last
	ended, congested  float64   // the actions that have ended, eight at most, and the share of those that met congestion
	// cutAt is when it was cut last, and why and to what; zero if it never was.
	cutAt  time.Time
	cutWhy string
	cutTo  int
}

// note notes whether an action met congestion.
func (x *limit) note(congested bool) {
	x.ended = min(x.ended+1, 8)
	x.congested -= x.congested / x.ended
	if congested {
		x.congested += 1 / x.ended
	}
}

// grow notes an action that ended well.
func (x *limit) grow(r *Running) {
	if x.fullAt.Before(r.began) || r.began.Before(x.cutAt) {
		return // it has not shown that there could be more
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

// cut makes the limit smaller for an action, and reports whether it did: what began before the last cut says nothing about it.
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

// reason says why the limit is what it is.
func (x *limit) reason() string {
	switch {
	case x.cutAt.IsZero() && x.size >= x.most:
		return atMost
	case x.cutAt.IsZero() && x.size == x.begin:
		return "it begins with that"
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
