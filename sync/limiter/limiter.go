// Package limiter finds how many actions can run at once. It learns what begins and how it ended, and answers whether one more can
// begin, and why the limits are what they are.
//
// A limit grows and shrinks as TCP's window does (additive increase, multiplicative decrease: Chiu and Jain, 1989), so several that use
// one vCenter back off without knowing of each other:
//
//	state     an action ends well, while the limit was used up    congestion
//	growing   one more                                            cut, and from then on steady
//	steady    one more for each full limit                        cut, once for what has begun since the last cut
//
// Congestion is that vCenter queued an action for more than ten seconds, made no progress with it, gave no answer or said that it has too
// much to do, or that actions take twice as long as they can (latency.go), as they do where what is queued says that it runs.
//
// Each kind of action has a limit; clones also have one for each source (a host) and for each target (a datastore).
//
// The package is pure: time is data, and equal calls give equal answers.
package limiter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of actions.
type Kind string

// The kinds.
const (
	Clones Kind = "clones"
	Power  Kind = "power"
	Others Kind = "others"
)

// Kinds are all kinds of actions.
var Kinds = []Kind{Clones, Power, Others}

// Work is what an action puts a load on.
type Work struct {
	Kind Kind
	// Source and Target are what a clone copies from and to; empty if they bound nothing.
	Source, Target string
	// Like tells it from other work that takes longer or shorter.
	Like string
}

// Outcome is how an action ended.
type Outcome struct {
	// Queued and Ran are how long vCenter let it wait, and took for it; both zero if that is not known.
	Queued, Ran time.Duration
	// Failed reports whether it failed.
	Failed bool
	// Overload is what vCenter called it when it had too much to do; empty if it did not.
	Overload string
	// Unanswered reports whether a call got no answer.
	Unanswered bool
}

// Congestion is how vCenter showed that it has too much to do.
type Congestion string

// The kinds of congestion.
const (
	Overload   Congestion = "overload"   // it said so
	Queued     Congestion = "queued"     // it let an action wait
	Slow       Congestion = "slow"       // actions took longer than they can
	Stalled    Congestion = "stalled"    // an action makes no progress
	Unanswered Congestion = "unanswered" // a call got no answer
)

// Congestions are all kinds of congestion.
var Congestions = []Congestion{Overload, Queued, Slow, Stalled, Unanswered}

const (
	// Begin is where limits begin: with what VMware Horizon has a vCenter provision at once by default.
	Begin = 20
	// cutTo is the share of a limit that is kept after congestion. Where times show a queue, those that run are kept (Little's law), and
	// cutLeast at most.
	cutTo, cutLeast = .75, .875
	// floor is the least that a limit is cut to.
	floor = 2
	// queuedMost is how long an action can be queued without that being congestion.
	queuedMost = 10 * time.Second
	// keptFrom is how many of all are one that clones leave to other kinds: without it, power-ons of all groups would wait for clones, which
	// take longest.
	keptFrom = 16
	// idle is after how long without work a limit begins again: what was found might no longer be true.
	idle = time.Hour
)

// Limiter keeps the limits. It is for one goroutine at a time.
type Limiter struct {
	most, begin int
	used        int // by all actions
	reserved    int // of these, for actions that are about to begin
	limits      map[key]*limit
	latencies   map[Work]*latency
}

// New returns the limits for at most so many actions at once, each of which begins with so many (0: Begin).
func New(most, begin int) *Limiter {
	l := &Limiter{most: most, begin: min(cmp.Or(begin, Begin), most), limits: map[key]*limit{}, latencies: map[Work]*latency{}}
	for _, k := range Kinds {
		l.limit(key{kind: k})
	}
	return l
}

// Used is how many actions are running, without those that are suspended.
func (l *Limiter) Used() int { return l.used - l.reserved }

// Permits reports whether an action can begin. extra permits one more than the limits.
func (l *Limiter) Permits(w Work, extra bool) bool {
	more := 0
	if extra {
		more = 1
	}
	return l.used < l.most+more && !slices.ContainsFunc(w.keys(), func(k key) bool { x := l.limits[k]; return x != nil && x.used >= x.size+more })
}

// Reserve keeps room for an action that is about to begin; Unreserve gives it back.
func (l *Limiter) Reserve(w Work) {
	l.reserved++
	l.take(w, 1)
}

// Unreserve gives back what Reserve has taken.
func (l *Limiter) Unreserve(w Work) {
	l.reserved--
	l.take(w, -1)
}

func (l *Limiter) take(w Work, n int) {
	l.used += n
	for _, k := range w.keys() {
		l.limit(k).used += n
	}
}

// Running is an action that runs.
type Running struct {
	work      Work
	began     time.Time
	suspended bool // it takes no room
	stalled   bool // it was suspended once, so its time says nothing
}

// Begin notes that an action begins.
func (l *Limiter) Begin(w Work, now time.Time) *Running {
	l.forget(now)
	l.take(w, 1)
	for _, k := range w.keys() {
		x := l.limit(k)
		if x.last = now; x.used >= x.size {
			x.fullAt = now
		}
	}
	return &Running{work: w, began: now}
}

// Suspend notes that an action makes no progress: it takes no room until it is resumed. why is empty if that says nothing about
// vCenter's load.
func (l *Limiter) Suspend(r *Running, now time.Time, why string) (cut *Limit) {
	if r.suspended {
		return nil
	}
	r.suspended, r.stalled = true, true
	if why != "" {
		cut = l.cut(r, now, why, cutTo)
	}
	l.take(r.work, -1)
	return cut
}

// Resume notes that an action makes progress again.
func (l *Limiter) Resume(r *Running) {
	if r.suspended {
		r.suspended = false
		l.take(r.work, 1)
	}
}

// End notes how an action has ended. It returns the limit that was cut for it, and for what, if one was.
func (l *Limiter) End(r *Running, now time.Time, o Outcome) (cut *Limit, congestion Congestion) {
	if !r.suspended {
		defer l.take(r.work, -1)
	}
	congestion, why, keep := l.congestion(r, now, o)
	for _, k := range r.work.keys() {
		l.limit(k).note(congestion != "")
	}
	switch {
	case congestion != "":
		return l.cut(r, now, why, keep), congestion
	case !o.Failed && !r.stalled:
		for _, k := range r.work.keys() {
			l.limit(k).grow(r)
		}
	}
	return nil, ""
}

// congestion is what the end of an action shows, why that is congestion, and the share of the limit to keep.
func (l *Limiter) congestion(r *Running, now time.Time, o Outcome) (c Congestion, why string, keep float64) {
	ran := o.Ran
	if o.Queued+o.Ran == 0 {
		ran = now.Sub(r.began)
	}
	x := l.latency(r.work, now)
	slow := !o.Failed && !r.stalled && x.add(r.began, o.Queued, ran)
	switch {
	case o.Overload != "":
		return Overload, "vCenter reported " + o.Overload, cutTo
	case o.Unanswered:
		return Unanswered, "vCenter did not answer", cutTo
	case o.Queued > queuedMost:
		return Queued, "vCenter queued a task for " + inSeconds(o.Queued), min(cutLeast, float64(x.ran)/float64(x.queued+x.ran))
	case slow:
		why, keep = "tasks took "+inSeconds(x.usual)+" instead of "+inSeconds(x.known()), float64(x.known())/float64(x.usual)
		x.cut(now, l.limit(r.work.keys()[0]).size <= floor)
		return Slow, why, keep
	}
	return "", "", 0
}

// cut makes one of an action's limits smaller: the narrowest, but the target of a clone if those to it meet congestion much more
// often than others from the same source.
func (l *Limiter) cut(r *Running, now time.Time, why string, keep float64) *Limit {
	keys := r.work.keys()
	k := keys[0]
	if len(keys) == 3 && l.limit(keys[1]).congested > l.limit(k).congested*5/4 {
		k = keys[1]
	}
	x := l.limit(k)
	if !x.cut(r, now, why, keep) {
		return nil
	}
	return &Limit{k.kind, k.source, k.target, x.size, x.most, x.used, x.reason()}
}

func (l *Limiter) limit(k key) *limit {
	if l.limits[k] == nil {
		most := l.most
		if k.kind == Clones {
			most -= most / keptFrom
		}
		l.limits[k] = &limit{size: min(l.begin, most), begin: min(l.begin, most), most: most}
	}
	return l.limits[k]
}

func (l *Limiter) latency(w Work, now time.Time) *latency {
	if l.latencies[w] == nil {
		l.latencies[w] = &latency{}
	}
	l.latencies[w].last = now
	return l.latencies[w]
}

// forget begins again the limits that have had no work for long.
func (l *Limiter) forget(now time.Time) {
	for k, x := range l.limits {
		if x.used == 0 && now.Sub(x.last) >= idle {
			if delete(l.limits, k); k.source == "" && k.target == "" {
				l.limit(k)
			}
		}
	}
	for w, x := range l.latencies {
		if now.Sub(x.last) >= idle {
			delete(l.latencies, w)
		}
	}
}

// Limit is how many actions of one kind (or of all, without one) can run at once, from one source or to one target if it has one.
type Limit struct {
	Kind           Kind
	Source, Target string
	// Size is the limit, Most its bound, and Used how many run.
	Size, Most, Used int
	// Why says why it is that.
	Why string
}

// Limits are the limits now: those of the kinds, then those of sources and targets.
func (l *Limiter) Limits() []Limit {
	all := make([]Limit, 0, len(l.limits))
	for k, x := range l.limits {
		all = append(all, Limit{k.kind, k.source, k.target, x.size, x.most, x.used, x.reason()})
	}
	slices.SortFunc(all, func(a, b Limit) int {
		return cmp.Or(strings.Compare(a.Target, b.Target), strings.Compare(a.Source, b.Source), cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)))
	})
	return all
}

// Blocking returns the limits that keep such work from beginning now: that for all kinds, without one, first.
func (l *Limiter) Blocking(w Work) (all []Limit) {
	if l.used >= l.most {
		all = append(all, Limit{Size: l.most, Most: l.most, Used: l.Used(), Why: atMost})
	}
	for _, k := range w.keys() {
		if x := l.limits[k]; x != nil && x.used >= x.size {
			all = append(all, Limit{k.kind, k.source, k.target, x.size, x.most, x.used, x.reason()})
		}
	}
	return all
}

// inSeconds is a duration for people.
func inSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
