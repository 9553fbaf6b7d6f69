package vcsim

import (
	"context"
	"time"
)

// Workers bound how many calls of clients vCenter serves at once, and say how long each takes; other calls wait for their turn, in the order in which they
// came. So clients delay each other, as with a real vCenter. A call that waits for changes (WaitForUpdatesEx) has a worker only for that long, too. With the
// zero value, calls take no time. The admin's calls need no worker.
type Workers struct {
	AtOnce int
	Each   time.Duration
}

// turns are the workers that are free.
type turns struct {
	each time.Duration
	busy chan struct{} // nil: calls take no time
}

func newTurns(w Workers) *turns {
	if w == (Workers{}) {
		return &turns{}
	}
	return &turns{w.Each, make(chan struct{}, w.AtOnce)}
}

// serve has a worker serve a call, and returns when it has; false if ctx ended before.
func (t *turns) serve(ctx context.Context) bool {
	if t.busy == nil {
		return true
	}
	select {
	case t.busy <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-t.busy }()
	select {
	case <-time.After(t.each):
		return true
	case <-ctx.Done():
		return false
	}
}
