package course

import (
	"slices"
	"sync"
	"time"
)

// Limits bound how many tasks run at once. The others are queued, in their order, except that those of a busy host let others pass. The
// zero value bounds nothing.
//
// A real vCenter runs about 640 operations at once, and a host has 16 units, of which a full clone takes 4 and a linked one 1 (VMware's
// performance blog, 2021-02); 60 to 70 operations a second were measured on vCenter 6.5.
type Limits struct {
	// Operations is how many tasks run at once. 0: any number.
	Operations int
	// HostUnits is how many units each host has. 0: any number.
	HostUnits int
	// PerSecond is how many tasks start in a second. 0: any number.
	PerSecond int
	// Unseen makes queued tasks say that they run.
	Unseen bool
}

// Claim is what a task needs: units of hosts, by moRef.
type Claim map[string]int

// Clone is the claim of a clone from one host to another; "" for one that is not known.
func Clone(from, to string, linked bool) Claim {
	units := 4
	if linked {
		units = 1
	}
	c := Claim{from: units, to: units}
	delete(c, "")
	return c
}

// Queue lets tasks run. The zero value bounds nothing.
type Queue struct {
	mu      sync.Mutex
	limits  Limits
	running int
	units   map[string]int // in use, by host
	waiting []*Ticket
	next    time.Time // when the next task may start
}

// Ticket is a task in the queue.
type Ticket struct {
	queue *Queue
	claim Claim
	turn  chan struct{}
	// At is when it starts, once its turn has come; in the past or in the future.
	At time.Time
}

// SetLimits changes how many tasks of clients run at once. Tasks that run continue.
func (q *Queue) SetLimits(l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits = l
	q.admit()
}

// Unseen reports whether queued tasks say that they run.
func (q *Queue) Unseen() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.limits.Unseen
}

// Enter puts a task into the queue.
func (q *Queue) Enter(c Claim) *Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &Ticket{queue: q, claim: c, turn: make(chan struct{})}
	q.waiting = append(q.waiting, t)
	q.admit()
	return t
}

// Turn is closed when it is the task's turn, at At.
func (t *Ticket) Turn() <-chan struct{} { return t.turn }

// Leave ends a task whose turn had come, or takes it from the queue.
func (t *Ticket) Leave() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, t); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.running--
	for host, n := range t.claim {
		q.units[host] -= n
	}
	q.admit()
}

// admit lets those run for which there is room. The caller holds mu.
func (q *Queue) admit() {
	now, l := time.Now(), &q.limits
	q.waiting = slices.DeleteFunc(q.waiting, func(t *Ticket) bool {
		if l.Operations > 0 && q.running >= l.Operations || l.HostUnits > 0 && !q.fits(t.claim) {
			return false
		}
		q.running++
		for host, n := range t.claim {
			if q.units == nil {
				q.units = map[string]int{}
			}
			q.units[host] += n
		}
		if t.At = now; l.PerSecond > 0 {
			if q.next.After(now) {
				t.At = q.next
			}
			q.next = t.At.Add(time.Second / time.Duration(l.PerSecond))
		}
		close(t.turn)
		return true
	})
}

// fits reports whether the hosts have so many units left. A task that needs more than a host has runs alone there. The caller holds mu.
func (q *Queue) fits(c Claim) bool {
	for host, n := range c {
		if used := q.units[host]; used > 0 && used+n > q.limits.HostUnits {
			return false
		}
	}
	return true
}
