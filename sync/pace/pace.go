// Package pace finds how many actions may run at once. It is told what begins and how it ended, and answers whether one more may
// begin, and why the numbers are what they are.
//
// A number is a window, as in TCP: while it is used up it grows by one for each action that ends well, until the first trouble; after
// that by one for each full window. It begins low, and up to 20 also grows by one for each action that the far side starts at once. On
// trouble it shrinks: the far side queued an action for more than ten seconds, made no progress, or said that it has too much to do; or
// actions take longer than they can (series.go), as they do where what is queued says that it runs. It shrinks at most once in the time
// of a median action, and what began before it shrank says nothing more about it. So several that share the far side find their shares
// without knowing of each other (additive increase, multiplicative decrease: Chiu and Jain, 1989), and whoever else uses it keeps one.
//
// Each kind of action has a window; clones also have one for each source and for each target. Only a window that was used up
// grows. Trouble is blamed on the one whose actions are delayed much longer than others, or else on the narrowest that was used up.
//
// The package is pure: time is data, and equal calls give equal answers.
package pace

import (
	"slices"
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
	// Light is for a clone that copies no disks: for its source and target it counts half.
	Light bool
	// Like tells it from other work that takes longer or shorter.
	Like string
}

// Outcome is how an action ended.
type Outcome struct {
	// Queued and Ran are how long the far side let it wait, and took for it; both zero if that is not known.
	Queued, Ran time.Duration
	// Failed reports whether it failed.
	Failed bool
	// Overload is what the far side called it when it had too much to do; empty if it did not.
	Overload string
	// Unanswered reports whether a call got no answer. Then nothing begins for a while.
	Unanswered bool
}

const (
	// Begin is where windows begin: in actions, for a source or target in heavy clones.
	Begin = 8
	// startedMost is to what a window grows for actions that have only started: what starts at once may yet turn out to be slow. It is
	// what VMware Horizon has a vCenter provision at once by default.
	startedMost = 20
	// atOnce is for how long an action that starts at once is queued at most.
	atOnce = time.Second
	// floor is the least that a window shrinks to, as Begin is counted.
	floor = 2
	// queuedMost is how long an action may be queued without that being trouble.
	queuedMost = 10 * time.Second
	// drain is how much remains of what seems to run, where only the time that actions take shows a queue: so few that none is queued for a
	// while. That tells what they take without a queue, and leaves others their share.
	drain = 0.9
	// keptFrom is how many of all are one that clones leave to other kinds: without it, power-ons and reconfigures of all groups would wait
	// for clones, which take longest. Fewer keep none, as that would be too large a share of them.
	keptFrom = 16
	// idle is after how long without work a window begins again: what was found may no longer hold.
	idle = time.Hour
	// restFirst and restMost bound how long nothing begins after a call without an answer: doubling.
	restFirst, restMost = time.Second, 30 * time.Second
)

// Pace keeps the windows. It is for one goroutine at a time.
type Pace struct {
	most, begin int
	used        int // by all actions
	reserved    int // of these, for actions that are about to begin
	windows     map[key]*window
	likes       map[Work]*series
	unanswered  int // in a row
	// rested is when nothing was begun last, and until rest.
	rested, rest time.Time
}

// New returns the windows for at most so many actions at once, each of which begins with so many (0: Begin).
func New(most, begin int) *Pace {
	if begin <= 0 {
		begin = Begin
	}
	p := &Pace{most: most, begin: min(begin, most), windows: map[key]*window{}, likes: map[Work]*series{}}
	for _, k := range Kinds {
		p.window(key{kind: k})
	}
	return p
}

// Used is how many actions are under way, without those that stand still.
func (p *Pace) Used() int { return p.used - p.reserved }

// May reports whether an action may begin. extra permits one more than the windows.
func (p *Pace) May(w Work, extra bool) bool {
	more := 0
	if extra {
		more = 1
	}
	if p.used >= p.most+more {
		return false
	}
	for _, k := range w.keys() {
		if x := p.windows[k]; x != nil && x.used >= x.size+more*x.scale {
			return false
		}
	}
	return true
}

// Rest is for how long nothing may begin, because calls got no answer.
func (p *Pace) Rest(now time.Time) time.Duration { return max(0, p.rest.Sub(now)) }

// Reserve keeps room for an action that is about to begin; Unreserve gives it back.
func (p *Pace) Reserve(w Work) {
	p.reserved++
	p.take(w, 1)
}

// Unreserve gives back what Reserve has taken.
func (p *Pace) Unreserve(w Work) {
	p.reserved--
	p.take(w, -1)
}

func (p *Pace) take(w Work, n int) {
	p.used += n
	for _, k := range w.keys() {
		p.window(k).used += n * w.cost(k)
	}
}

// Running is an action under way.
type Running struct {
	work    Work
	began   time.Time
	most    []int // that its windows' use has been, while it ran
	started bool  // as far as is known, and at once
	away    bool  // it stands still, or is probably over
	stood   bool  // it has stood still
}

// Begin notes that an action begins.
func (p *Pace) Begin(w Work, now time.Time) *Running {
	p.forget(now)
	p.take(w, 1)
	r := &Running{work: w, began: now}
	for _, k := range w.keys() {
		x := p.window(k)
		x.last = now
		if x.used >= x.size {
			x.fullAt, x.peak = now, x.used
		}
		r.most = append(r.most, x.used)
	}
	return r
}

// Started notes that the far side has started an action, after it had queued it for so long.
func (p *Pace) Started(r *Running, queued time.Duration) {
	if queued > atOnce || r.started || r.away {
		return
	}
	r.started = true
	for _, k := range r.work.keys() {
		p.window(k).started(r, r.work.cost(k))
	}
}

// Stand notes that an action stands still: it takes no room until it goes on. trouble is empty if that says nothing about the far side's load.
func (p *Pace) Stand(r *Running, now time.Time, trouble string) (shrunk []Number) {
	if r.away {
		return nil
	}
	r.away, r.stood = true, true
	if trouble != "" {
		shrunk = p.blame(r, now, cause{why: trouble})
	}
	p.take(r.work, -1)
	return shrunk
}

// Over notes that an action has probably ended: it takes no room unless it goes on.
func (p *Pace) Over(r *Running) {
	if !r.away {
		r.away = true
		p.take(r.work, -1)
	}
}

// GoOn notes that an action no longer stands still, or is not over.
func (p *Pace) GoOn(r *Running) {
	if r.away {
		r.away = false
		p.take(r.work, 1)
	}
}

// End notes that an action has ended, and returns the windows that have shrunk for it.
func (p *Pace) End(r *Running, now time.Time, o Outcome) (shrunk []Number) {
	defer func() {
		if !r.away {
			p.take(r.work, -1)
		}
	}()
	if o.Unanswered {
		if r.began.Before(p.rested) {
			return nil // it began before the others that got none
		}
		p.rested = now
		p.rest = now.Add(min(restFirst<<min(p.unanswered, 10), restMost))
		p.unanswered++
		return nil
	}
	p.unanswered = 0
	took := o.Queued + o.Ran
	if took == 0 {
		took = now.Sub(r.began)
	}
	ran := took - o.Queued
	var slow bool
	var trouble cause
	late := o.Queued
	switch o.Trouble() {
	case Overload:
		trouble.why = "vCenter reported " + o.Overload
	case Queued:
		trouble = cause{why: "vCenter queued a task for " + inSeconds(o.Queued), delayed: true, queued: true}
	}
	if !o.Failed && !r.stood {
		best, usual := p.like(r.work, now).add(r.began, p.shrunkAt(r.work), p.atFloor(r.work), ran)
		if best > 0 {
			late += max(0, ran-best)
		}
		if slow = tooSlow(ran, best); usual > 0 && trouble.why == "" {
			trouble = cause{why: "tasks took " + inSeconds(usual) + " instead of " + inSeconds(best), delayed: true, ran: drain * float64(best) / float64(usual)}
		}
	}
	for _, k := range r.work.keys() {
		p.window(k).note(r, o, late)
	}
	switch {
	case trouble.why != "":
		return p.blame(r, now, trouble)
	case !o.Failed && !slow && !r.stood && o.Queued <= queuedMost:
		for _, k := range r.work.keys() {
			p.window(k).ended(r, r.work.cost(k), took)
		}
	}
	return nil
}

// shrunkAt is when one of an action's windows has shrunk last.
func (p *Pace) shrunkAt(w Work) (last time.Time) {
	for _, k := range w.keys() {
		if at := p.window(k).shrunk.at; at.After(last) {
			last = at
		}
	}
	return last
}

// atFloor reports whether one of an action's windows can't shrink further.
func (p *Pace) atFloor(w Work) bool {
	return slices.ContainsFunc(w.keys(), func(k key) bool { x := p.window(k); return x.size <= x.floor() })
}

// blame shrinks one of an action's windows. If it was delayed, that is the one whose actions are delayed much longer than others of
// their kind, and than those of the other place: many clones of one source go to other targets, and they show that it is not the wall.
// Else it is the narrowest that was used up while the action ran; if there is none, the widest.
func (p *Pace) blame(r *Running, now time.Time, c cause) []Number {
	keys := r.work.keys()
	last := len(keys) - 1
	i, late := last, p.window(keys[last]).late
	for at, k := range keys[:last] {
		if x := p.window(k); c.delayed && x.late > late*5/4 {
			i, late = at, x.late
		}
	}
	if full := slices.IndexFunc(keys, func(k key) bool { return !p.window(k).fullAt.Before(r.began) }); i == last && full >= 0 {
		i = full
	}
	x := p.window(keys[i])
	if !x.shrink(r, max(r.most[i], x.used, x.peakSince(r.began)), now, c) {
		return nil
	}
	return []Number{p.number(keys[i], x)}
}

func (p *Pace) window(k key) *window {
	x := p.windows[k]
	if x == nil {
		most := p.most
		if k.kind == Clones {
			most -= most / keptFrom
		}
		x = newWindow(k.scale(), min(p.begin, most), most)
		p.windows[k] = x
	}
	return x
}

// like are the durations of such work.
func (p *Pace) like(w Work, now time.Time) *series {
	s := p.likes[w]
	if s == nil {
		s = &series{}
		p.likes[w] = s
	}
	s.last = now
	return s
}

// forget begins again the windows that have had no work for long.
func (p *Pace) forget(now time.Time) {
	for k, x := range p.windows {
		if x.used > 0 || now.Sub(x.last) < idle {
			continue
		}
		if delete(p.windows, k); k.narrow() {
			continue
		}
		p.window(k)
	}
	for w, s := range p.likes {
		if now.Sub(s.last) >= idle {
			delete(p.likes, w)
		}
	}
}
