package tasks

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// OlderClones remembers, for each group that ends, the clones that it has to wait for.
type OlderClones struct {
	mu      sync.Mutex
	awaited map[types.UID]cloneList
	begun   map[string]types.UID // the groups of the clones that this process has begun and awaits, by task
	none    time.Time            // when the newest read began that showed no clone
}

// cloneList is the tasks of the clones to wait for, as first listed for that since. A forgotten one is not listed.
type cloneList struct {
	listed bool
	since  time.Time
	tasks  []string
}

const (
	// olderMost bounds the remembered groups. A group that is no longer among them begins a new list.
	olderMost = 1024
	// noneLasts is how long a read that showed no clone answers for groups that had ended before it began. Many groups end at the same time,
	// and each read returns up to 200 tasks.
	noneLasts = time.Second
)

// NewOlderClones returns an OlderClones without groups.
func NewOlderClones() *OlderClones {
	return &OlderClones{awaited: map[types.UID]cloneList{}, begun: map[string]types.UID{}}
}

// Begins notes that this process has begun a clone for a group, and returns a function that must be called once it no longer waits for it.
func (c *OlderClones) Begins(task string, uid types.UID) (ends func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun[task] = uid
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.begun, task)
	}
}

// Forget drops a group's list, so that the next call lists the clones again. One list is enough only if the
// folder goes, because a later clone has nowhere to land. If the folder stays, the end waits for the leases of other
// replicas, and then for the clones that these have begun.
func (c *OlderClones) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remember(uid, cloneList{})
}

// HasRemoved notes that a VM of a group was removed. After the list was made, such a VM is of a clone that another replica began because it
// doesn't know of the deletion, and it may have begun more, so the next call lists the clones again.
func (c *OlderClones) HasRemoved(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.awaited[uid].listed {
		c.remember(uid, cloneList{})
	}
}

// Ended reports whether all of the clones have ended that ran at the first call for a group that ended at since, a time of this process.
// A group that was never listed takes the last read if that began after its end. Since can be zero if it is not known.
func (c *OlderClones) Ended(uid types.UID, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.awaited[uid]
	if !known && !since.IsZero() && since.Before(c.none) && time.Since(c.none) < noneLasts {
		was = cloneList{listed: true, since: since}
		c.remember(uid, was)
	}
	return was.listed && was.since.Equal(since) && len(was.tasks) == 0
}

// Left takes which clones a read showed that are queued or running, and when it began. It returns how many of those are left that may be the
// group's, which are all but those that this process has begun for other groups, and that ran at the first call for a group and that since.
func (c *OlderClones) Left(uid types.UID, since, began time.Time, running []string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(running) == 0 && began.After(c.none) {
		c.none = began
	}
	was := c.awaited[uid]
	if !was.listed || !was.since.Equal(since) {
		was = cloneList{listed: true, since: since, tasks: running}
	}
	was.tasks = slices.DeleteFunc(slices.Clone(was.tasks), func(task string) bool {
		of, known := c.begun[task]
		return !slices.Contains(running, task) || known && of != uid
	})
	c.remember(uid, was)
	return len(was.tasks)
}

// remember makes room for a group, and sets its list. The caller holds c.mu.
func (c *OlderClones) remember(uid types.UID, list cloneList) {
	for old := range c.awaited {
		if len(c.awaited) < olderMost || old == uid {
			break
		}
		delete(c.awaited, old)
	}
	c.awaited[uid] = list
}
