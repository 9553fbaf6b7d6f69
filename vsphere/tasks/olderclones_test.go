package tasks_test

import (
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
)

// A group can use another group's read of the tasks only if that read began after the group's own deletion, and found no clone.
func TestAGroupTakesAReadOfClonesThatBeganAfterItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		before func(c *tasks.OlderClones, since time.Time)
		ended  bool
	}{
		"nothing was read": {func(*tasks.OlderClones, time.Time) {}, false},
		"another's read": {func(c *tasks.OlderClones, since time.Time) {
			c.Left("other", since, time.Now(), nil)
		}, true},
		"it showed a clone": {func(c *tasks.OlderClones, since time.Time) {
			c.Left("other", since, time.Now(), []string{"task-1"})
		}, false},
		"it began before the end": {func(c *tasks.OlderClones, since time.Time) {
			c.Left("other", since, since.Add(-time.Millisecond), nil)
		}, false},
		"an older read ended later": {func(c *tasks.OlderClones, since time.Time) {
			c.Left("other", since, time.Now(), nil)
			c.Left("third", since, since.Add(-time.Second), nil)
		}, true},
		"it was long ago": {func(c *tasks.OlderClones, since time.Time) {
			c.Left("other", since, time.Now(), nil)
			time.Sleep(time.Second)
		}, false},
		"the group waits for a clone": {func(c *tasks.OlderClones, since time.Time) {
			c.Left("web", since, time.Now(), []string{"task-1"})
			c.Left("other", since, time.Now(), nil)
		}, false},
		"its clone has ended": {func(c *tasks.OlderClones, since time.Time) {
			c.Left("web", since, time.Now(), []string{"task-1"})
			c.Left("web", since, time.Now(), []string{"task-2"})
		}, true},
		"the clone is another group's": {func(c *tasks.OlderClones, since time.Time) {
			c.Begins("task-1", "other")
			c.Left("web", since, time.Now(), []string{"task-1"})
		}, true},
		"a clone is its own": {func(c *tasks.OlderClones, since time.Time) {
			c.Begins("task-1", "web")
			c.Left("web", since, time.Now(), []string{"task-1"})
		}, false},
		"the clone was said to be another group's too late": {func(c *tasks.OlderClones, since time.Time) {
			c.Left("web", since, time.Now(), []string{"task-1"})
			c.Begins("task-1", "other")
			c.Left("web", since, time.Now(), []string{"task-1"})
		}, true},
		"this process no longer knows whose the clone is": {func(c *tasks.OlderClones, since time.Time) {
			c.Begins("task-1", "other")()
			c.Left("web", since, time.Now(), []string{"task-1"})
		}, false},
		"it ended another time before": {func(c *tasks.OlderClones, since time.Time) {
			c.Left("web", since.Add(-time.Hour), time.Now(), nil)
		}, false},
		"its folder stays": {func(c *tasks.OlderClones, since time.Time) {
			c.Left("web", since, time.Now(), nil)
			c.Forget("web")
			c.Left("other", since, time.Now(), nil)
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			clones, since := tasks.NewOlderClones(), time.Now()
			time.Sleep(time.Millisecond)
			c.before(clones, since)
			if clones.Ended("web", since) != c.ended {
				t.Errorf("%s: ended is %v", name, !c.ended)
			}
		})
	}
}
