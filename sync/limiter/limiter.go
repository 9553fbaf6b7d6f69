// Package limiter finds how many actions can run at once. Callers tell it which actions begin and how they end; it says whether another
// action can begin, and why each limit has its value.
//
// A limit grows and shrinks like TCP's window (additive increase, multiplicative decrease: Chiu and Jain, 1989), so that several servers
// that use one vCenter back off without knowing about each other:
//
//	state     an action ends well, while the limit was used up    congestion
//	growing   one more                                            cut, and from then on steady
//	steady    one more for each full limit                        cut, once for what has begun since the last cut
//
// Congestion means that vCenter queued an action for more than ten seconds, made no progress with it, gave no answer or said that it is
// overloaded; or that actions take twice their best time (latency.go), as they do when vCenter reports a queued task as running.
//
// Each kind of action has a limit; clones also have one for each source (a host) and for each target (a datastore).
//
// The package is pure: callers pass the time, and equal calls give equal answers.
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

// Work describes the load of an action.
type Work struct {
	Kind Kind
	// Source and Target are what a clone copies from and to; empty if no limit applies to them.
	Source, Target string
	// LatencyClass groups work that takes about as long, to compare durations.
	LatencyClass string
	// Tenant is whose work it is. No limit depends on it.
	Tenant string
}

// Outcome is how an action ended.
type Outcome struct {
	// Queued and Ran are how long vCenter queued the action, and ran it; both zero if unknown.
	Queued, Ran time.Duration
	// Failed reports whether the action failed.
	Failed bool
	// Overload is the fault by which vCenter said that it is overloaded; empty if it didn't.
	Overload string
	// Unanswered reports whether a call got no answer.
	Unanswered bool
}

// Congestion is the sign by which vCenter showed that it is overloaded.
type Congestion string

// The kinds of congestion.
const (
	Overload   Congestion = "overload"   // vCenter said that it is overloaded
	Queued     Congestion = "queued"     // vCenter queued an action
	Slow       Congestion = "slow"       // actions took much longer than their best time
	Stalled    Congestion = "stalled"    // an action made no progress
	Unanswered Congestion = "unanswered" // a call got no answer
)

// Congestions are all kinds of congestion.
var Congestions = []Congestion{Overload, Queued, Slow, Stalled, Unanswered}

const (
	// Begin is the initial value of limits: VMware Horizon's default for concurrent provisioning in a vCenter.
	Begin = 20
	// cutTo is the share of a limit that is kept after congestion. If times show a queue, the limit is cut to the actions that really run
	// (Little's law), but to at most the share cutLeast.
	cutTo, cutLeast = .75, .875
	// floor is the minimum to which a limit is cut.
	floor = 2
	// queuedMost is how long vCenter can queue an action before that counts as congestion.
	queuedMost = 10 * time.Second
	// keptFrom is the share of all slots that clones leave to other kinds: one in keptFrom. Without it, power-ons of all groups would wait for
	// clones, which take longest.
	keptFrom = 16
	// idle is the time without work after which a limit returns to its initial value, because what was learned might no longer be true.
	idle = time.Hour
)

// Limiter has the limits. Only one goroutine at a time can use it.
type Limiter struct {
	most, begin int
	used        int // slots that all actions use
	reserved    int // those of them that are reserved for actions that are about to begin
	limits      map[key]*limit
	latencies   map[Work]*latency
}

// New returns limits for at most most actions at once. The initial value of each limit is begin (0: Begin).
func New(most, begin int) *Limiter {
	l := &Limiter{most: most, begin: min(cmp.Or(begin, Begin), most), limits: map[key]*limit{}, latencies: map[Work]*latency{}}
	for _, k := range Kinds {
		l.limit(key{kind: k})
	}
	return l
}

// Used returns how many actions are running, without those that are suspended.
func (l *Limiter) Used() int { return l.used - l.reserved }

// Permits reports whether an action can begin. more permits so many actions more than the limits.
func (l *Limiter) Permits(w Work, more int) bool {
	return l.used < l.most+more && !slices.ContainsFunc(w.keys(), func(k key) bool { x := l.limits[k]; return x != nil && x.used >= x.size+more })
}

// Reserve reserves a slot for an action that is about to begin; Unreserve frees it.
func (l *Limiter) Reserve(w Work) {
	l.reserved++
	l.take(w, 1)
}

// Unreserve frees the slot that Reserve has reserved.
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
	suspended bool // it takes no slot
	stalled   bool // it was suspended once, so its duration isn't measured
}

// Begin records that an action begins.
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

// Suspend records that an action makes no progress: it takes no slot until it is resumed. why is empty if the cause isn't vCenter's load.
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

// Resume records that an action makes progress again.
func (l *Limiter) Resume(r *Running) {
	if r.suspended {
		r.suspended = false
		l.take(r.work, 1)
	}
}

// End records how an action has ended. It returns the limit that was cut because of the action, if any, and the kind of congestion.
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

// congestion returns the congestion that the end of an action shows, the reason in words, and the share of the limit to keep.
func (l *Limiter) congestion(r *Running, now time.Time, o Outcome) (c Congestion, why string, keep float64) {
	ran := o.Ran
	if o.Queued+o.Ran == 0 {
		ran = now.Sub(r.began)
	}
	x := l.latency(r.work, now)
	slow := !o.Failed && !r.stalled && x.add(r.work.Tenant, r.began, now, o.Queued, ran) && !l.contradicted(r)
	switch {
	case o.Overload != "":
		return Overload, "vCenter reported " + o.Overload, cutTo
	case o.Unanswered:
		return Unanswered, "vCenter did not answer", cutTo
	case o.Queued > queuedMost:
		return Queued, "vCenter queued a task for " + inSeconds(o.Queued), min(cutLeast, float64(x.ran)/float64(x.queued+x.ran))
	case slow:
		usual := x.usual[r.work.Tenant]
		why, keep = "tasks took "+inSeconds(usual)+" instead of "+inSeconds(x.known()), float64(x.known())/float64(usual)
		x.cut(now, l.limit(r.work.keys()[0]).size <= floor)
		return Slow, why, keep
	}
	return "", "", 0
}

// contradicted reports whether an action of another tenant, which counts against the same limit and ended while this one ran, was not slow: then vCenter
// queued neither.
func (l *Limiter) contradicted(r *Running) bool {
	limit := r.work.keys()[0]
	for w, x := range l.latencies {
		if w.keys()[0] != limit {
			continue
		}
		for tenant, at := range x.ended {
			if tenant != r.work.Tenant && at.After(r.began) && !x.slow(tenant) {
				return true
			}
		}
	}
	return false
}

// cut lowers one of an action's limits: the narrowest, or, for a clone, its target's, if clones to that target meet congestion much more
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
	w.Tenant = ""
	if l.latencies[w] == nil {
		l.latencies[w] = newLatency()
	}
	l.latencies[w].last = now
	return l.latencies[w]
}

// forget resets limits that have had no work for idle.
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

// Limit says how many actions of one kind (of all kinds, if Kind is empty) can run at once, from one source or to one target if it names
// one.
type Limit struct {
	Kind           Kind
	Source, Target string
	// Size is the limit, Most its maximum, and Used how many actions run.
	Size, Most, Used int
	// Why says why Size has its value.
	Why string
}

// Limits returns the present limits: those of the kinds, then those of sources and targets.
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

// Blocking returns the limits that keep such work from beginning now; the limit of all kinds comes first.
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

// inSeconds formats a duration for messages.
func inSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
