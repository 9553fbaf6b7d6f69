package vcsim

import (
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// Kind is a kind of task, by vCenter's TaskInfo.descriptionId.
type Kind string

// Latency is the duration of tasks by kind. Admin's tasks take no time.
type Latency struct {
	Clone       time.Duration
	Power       time.Duration // power on, power off, reset, and the guest's own shutdown
	Reconfigure time.Duration
	Other       time.Duration
}

// course has what tests inject into clients' tasks: latency, holds and faults. With the zero value, all tasks run and succeed.
type course struct {
	queue

	mu     sync.Mutex // guards the fields below
	held   map[Kind]chan struct{}
	faults []*taskFault
}

// taskFault is a fault that FailTask injects.
type taskFault struct {
	repeats
	kind  Kind
	match func(name string) bool
	fault types.BaseMethodFault
}

// Hold keeps tasks of a kind that begin from now on running until Release. Tests use Hold where a latency could end too early.
func (c *course) Hold(kind Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = map[Kind]chan struct{}{}
	}
	if c.held[kind] == nil {
		c.held[kind] = make(chan struct{})
	}
}

// Release ends the tasks that Hold keeps running.
func (c *course) Release(kind Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held := c.held[kind]; held != nil {
		close(held)
		delete(c.held, kind)
	}
}

// Held returns a channel for which tasks of a kind must wait; nil if Hold does not keep them.
func (c *course) Held(kind Kind) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[kind]
}

// FailTask makes this many tasks of a kind end in a fault after their latency; 0: all. match gets the name of the VM (of a clone: the new
// one), folder or cluster; nil: any. For ShutdownGuest, the guest does not halt.
func (c *course) FailTask(kind Kind, match func(vmName string) bool, f types.BaseMethodFault, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &taskFault{kind: kind, match: match, fault: f, repeats: newRepeats(times)})
}

// HealTasks withdraws the faults of FailTask.
func (c *course) HealTasks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// Failure returns the fault to inject into a task, or nil.
func (c *course) Failure(kind Kind, name string) types.BaseMethodFault {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.faults, func(o *taskFault) bool {
		return o.kind == kind && (o.match == nil || o.match(name)) && o.Take()
	})
	if i < 0 {
		return nil
	}
	return c.faults[i].fault
}

// Limits bound how many clones run at once. Other clones are queued, and begin in their order, except that clones of other hosts can overtake
// those of a busy host. The zero value sets no limit.
//
// A host of a real vCenter has 16 units, of which a full clone takes 4 and a linked one 1 (VMware's performance blog, 2021-02).
type Limits struct {
	// HostUnits is the number of units of each host; 0 for no limit.
	HostUnits int
	// Unseen makes queued tasks report that they are running.
	Unseen bool
}

// claim is what a task needs: units of hosts, by moRef.
type claim map[string]int

// cloneClaim returns the claim of a clone from one host to another; an unknown host is "".
func cloneClaim(from, to string, linked bool) claim {
	units := 4
	if linked {
		units = 1
	}
	c := claim{from: units, to: units}
	delete(c, "")
	return c
}

// queue lets tasks wait for their turn. The zero value sets no limit.
type queue struct {
	limits Limits // set before the first task

	mu      sync.Mutex
	units   map[string]int // in use, by host
	waiting []*ticket
}

// ticket is the place of a task in the queue. turn is closed when the task can run.
type ticket struct {
	claim claim
	turn  chan struct{}
}

// Enter puts a task into the queue. turn is closed when the task can run, and leave ends it.
func (q *queue) Enter(c claim) (turn <-chan struct{}, leave func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &ticket{claim: c, turn: make(chan struct{})}
	q.waiting = append(q.waiting, t)
	q.admit()
	return t.turn, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		for host, n := range t.claim {
			q.units[host] -= n
		}
		q.admit()
	}
}

// admit gives the turn to queued tasks for which the hosts have enough units. The caller holds mu.
func (q *queue) admit() {
	q.waiting = slices.DeleteFunc(q.waiting, func(t *ticket) bool {
		if q.limits.HostUnits > 0 && !q.fits(t.claim) {
			return false
		}
		for host, n := range t.claim {
			if q.units == nil {
				q.units = map[string]int{}
			}
			q.units[host] += n
		}
		close(t.turn)
		return true
	})
}

// fits reports whether the hosts have the claimed units left. A task that needs more units than a host has runs alone on it. The caller holds
// mu.
func (q *queue) fits(c claim) bool {
	for host, n := range c {
		if used := q.units[host]; used > 0 && used+n > q.limits.HostUnits {
			return false
		}
	}
	return true
}
