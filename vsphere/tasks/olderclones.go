package tasks

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// OlderClones remembers, for each group that is being deleted, the running clones that its deletion must wait for.
type OlderClones struct {
	mu      sync.Mutex
	awaited map[types.UID]cloneList
	begun   map[string]types.UID // the groups of the clones that this process has begun and awaits, by task
	none    time.Time            // the begin of the newest read that showed no clone
}

// cloneList has the tasks of the clones to wait for, as they were first listed for a group that was deleted at since. listed is false if the
// list was forgotten.
type cloneList struct {
	listed bool
	since  time.Time
	tasks  []string
}

const (
	// olderMost bounds the number of remembered groups. A group that was dropped begins a new list.
	olderMost = 1024
	// noneLasts is how long a read that showed no clone is used for other groups whose deletion began before it. Many groups may be deleted at the
	// same time, and each read returns up to 200 tasks.
	noneLasts = time.Second
)

// NewOlderClones returns an OlderClones without groups.
func NewOlderClones() *OlderClones {
	return &OlderClones{awaited: map[types.UID]cloneList{}, begun: map[string]types.UID{}}
}

// Begins notes that this process has begun a clone for a group. The caller must call ends when it no longer waits for the clone.
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

// Forget drops a group's list, so that the next call lists the clones again. One list is enough only if the group's folder is removed, because a
// later clone then fails. If the folder is kept, the deletion waits until the leases of other replicas have ended, and then for the clones that
// these have begun.
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

// Ended reports whether all clones have ended that were running at the first call for a group whose deletion began at since, by this process's
// clock. For a group without a list, Ended uses the last read that showed no clone, if it began after since. since is zero if it is not known.
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

// Left takes the clones that are queued or running by a read that began at began. It returns the number of clones to wait for: those that were
// running at the first call for this group and since, and still are, without those that this process has begun for other groups.
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

// remember sets a group's list, and drops another group's if there are too many. The caller holds c.mu.
func (c *OlderClones) remember(uid types.UID, list cloneList) {
	for old := range c.awaited {
		if len(c.awaited) < olderMost || old == uid {
			break
		}
		delete(c.awaited, old)
	}
	c.awaited[uid] = list
}
