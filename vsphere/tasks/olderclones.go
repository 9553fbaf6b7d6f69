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
}

// cloneList is the tasks of the clones to wait for, as first listed for that since.
type cloneList struct {
	since time.Time
	tasks []string
}

// olderMost bounds the remembered groups. A forgotten one begins a new list.
const olderMost = 1024

// NewOlderClones returns an OlderClones without groups.
func NewOlderClones() *OlderClones { return &OlderClones{awaited: map[types.UID]cloneList{}} }

// Forget drops a group's list, so that the next call lists the clones again. One list is enough only if the
// folder goes, because a later clone has nowhere to land. If the folder stays, the end waits for the leases of other
// replicas, and then for the clones that these have begun.
func (c *OlderClones) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.awaited, uid)
}

// Ended reports whether all of the clones have ended that ran at the first call of Left for a group and that since.
func (c *OlderClones) Ended(uid types.UID, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.awaited[uid]
	return known && was.since.Equal(since) && len(was.tasks) == 0
}

// Left returns how many of the clones that ran at the first call for a group and that since are still running.
func (c *OlderClones) Left(uid types.UID, since time.Time, running []string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.awaited[uid]
	if !known || !was.since.Equal(since) {
		for old := range c.awaited {
			if len(c.awaited) < olderMost {
				break
			}
			delete(c.awaited, old)
		}
		was.tasks = running
	}
	var still []string
	for _, task := range was.tasks {
		if slices.Contains(running, task) {
			still = append(still, task)
		}
	}
	c.awaited[uid] = cloneList{since, still}
	return len(still)
}
