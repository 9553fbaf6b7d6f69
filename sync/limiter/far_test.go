package limiter

import (
	"slices"
	"time"
)

// far is the far side, a vCenter: it carries out a number of actions at once, in the order in which they came, and queues the others.
type far struct {
	now     time.Time
	room    func(Work) int                // how many actions that share a resource run at once
	takes   func(time.Time) time.Duration // how long an action that begins then takes
	unseen  bool                          // the far side reports queued actions as running
	queue   []*task
	running []*task
	users   []*user
	next    int // the user whose turn it is to begin
	most    int // the highest number of queued and running actions so far
}

// task is an action on the far side.
type task struct {
	by                  *user
	work                Work
	run                 *Running
	queued, began, ends time.Time
}

// user is a client of the far side: a replica with a Limiter, or one that always runs a fixed number of actions.
type user struct {
	limiter *Limiter
	fixed   int
	work    func(i int) Work
	left    int
	open    int
	done    []time.Time
}

// start begins the actions that can begin now.
func (f *far) start() {
	for again := true; again; {
		again = f.begin()
		f.most = max(f.most, len(f.queue)+len(f.running))
		f.carryOut()
	}
}

// begin lets users begin the actions that their limits allow, and reports whether any did.
func (f *far) begin() (any bool) {
	for again := true; again; {
		again = false
		for i := range f.users { // in turns, as a loop's groups wait in one queue
			i = (f.next + i) % len(f.users)
			u := f.users[i]
			if u.left == 0 {
				continue
			}
			w := u.work(u.left)
			if u.limiter != nil && !u.limiter.Permits(w, 0) || u.limiter == nil && u.open >= u.fixed {
				continue
			}
			t := &task{by: u, work: w, queued: f.now}
			if u.limiter != nil {
				t.run = u.limiter.Begin(w, f.now)
			}
			u.left, u.open, again, any = u.left-1, u.open+1, true, true
			f.next = i + 1
			f.queue = append(f.queue, t)
		}
	}
	return any
}

// carryOut starts the queued actions that the far side has room for.
func (f *far) carryOut() {
	type place struct{ source, target string }
	same := map[place]int{}
	for _, r := range f.running {
		same[place{r.work.Source, r.work.Target}]++
	}
	f.queue = slices.DeleteFunc(f.queue, func(t *task) bool {
		at := place{t.work.Source, t.work.Target}
		if same[at] >= f.room(t.work) {
			return false
		}
		same[at]++
		t.began, t.ends = f.now, f.now.Add(f.takes(f.now))
		f.running = append(f.running, t)
		return true
	})
}

// run continues until all actions have ended, or until that time (zero: no bound).
func (f *far) run(until time.Time) {
	for {
		f.start()
		if len(f.running) == 0 {
			return
		}
		next := slices.MinFunc(f.running, func(a, b *task) int { return a.ends.Compare(b.ends) }).ends
		if !until.IsZero() && next.After(until) {
			f.now = until
			return
		}
		f.now = next
		f.running = slices.DeleteFunc(f.running, func(t *task) bool {
			if t.ends.After(f.now) {
				return false
			}
			t.by.open--
			t.by.done = append(t.by.done, f.now)
			if t.run != nil {
				if f.unseen {
					t.began = t.queued
				}
				t.by.limiter.End(t.run, f.now, Outcome{Queued: t.began.Sub(t.queued), Ran: t.ends.Sub(t.began)})
			}
			return true
		})
	}
}

// since counts the actions that ended at or after then.
func (u *user) since(then time.Time) int {
	i, _ := slices.BinarySearchFunc(u.done, then, time.Time.Compare)
	return len(u.done) - i
}
