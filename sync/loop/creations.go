package loop

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// Each new group has a budget of edits of its own, so one that is deleted and created again and again would cost vCenter a folder and a clone each time.
// Therefore, a namespace has a budget of deletions. While it is used up, one new group of the namespace begins every createEvery, in the order in which they
// came. Creating groups doesn't use it, so the groups of a repository begin at once; a ResourceQuota bounds how many there
// are. A budget that was used up is whole enough again once half of it is left.
const (
	deletedAtOnce = 100
	createEvery   = time.Second
)

// creations are the budget of one namespace, and its new groups that wait for it.
type creations struct {
	deletions *rate.Limiter // negative after more of them
	usedUp    bool          // until half of it is left
	next      time.Time     // when the next group can begin while it is used up
	waiting   []types.UID
	since     time.Time // since when groups wait
}

// creationsOf returns the budget of a group's namespace. The caller holds mu.
func (l *Loop) creationsOf(g *group) *creations {
	c := l.creations[g.ref.Namespace]
	if c == nil {
		c = &creations{deletions: rate.NewLimiter(rate.Every(createEvery), deletedAtOnce)}
		l.creations[g.ref.Namespace] = c
	}
	return c
}

// deleted notes that a group is being deleted. One that never began costs nothing. The caller holds mu.
func (l *Loop) deleted(g *group, now time.Time) {
	if !g.edits.created {
		l.creationsOf(g).deletions.ReserveN(now, 1)
	}
}

// created has a new group wait if its namespace's budget is used up. The caller holds mu.
func (l *Loop) created(g *group, now time.Time) {
	c := l.creationsOf(g)
	if len(c.waiting) == 0 {
		c.since = now
	}
	c.waiting = append(c.waiting, g.ref.UID)
	g.edits.created, g.edits.waits, g.edits.since = true, true, c.since
	l.beginNew(g, now)
}

// beginNew lets those of the new groups of a group's namespace begin that can, and wakes the next one when it can. Groups that are deleted before are passed
// over. The caller holds mu.
func (l *Loop) beginNew(of *group, now time.Time) {
	c := l.creationsOf(of)
	for of.edits.created && len(c.waiting) > 0 {
		uid := c.waiting[0]
		if g := l.groups[uid]; g != nil && g.edits.created && !g.lease.finalizing {
			if left := c.deletions.TokensAt(now); left < 1 {
				c.usedUp = true
			} else if left >= deletedAtOnce/2 {
				c.usedUp = false
			}
			if c.usedUp && now.Before(c.next) {
				l.queue.AddAfter(uid, c.next.Sub(now))
				return
			}
			c.next = now.Add(createEvery)
			g.edits.created, g.edits.waits, g.edits.since = false, false, time.Time{}
			l.queue.Add(uid)
		}
		c.waiting = c.waiting[1:]
	}
}

// forgetCreations forgets the budgets that are whole again. The caller holds mu.
func (l *Loop) forgetCreations(now time.Time) {
	for namespace, c := range l.creations {
		if len(c.waiting) == 0 && c.deletions.TokensAt(now) >= deletedAtOnce {
			delete(l.creations, namespace)
		}
	}
}
