package loop

import (
	"context"
	"sync"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// limit is a vCenter that carries out a number of tasks at once, in the order in which they came, and queues the others.
type limit struct {
	mu   sync.Mutex
	room int
	// unseen makes queued tasks look as if they ran.
	unseen bool
	queue  []chan struct{}
}

func (l *limit) carryOut(ctx context.Context, took time.Duration) plan.StepResult {
	came := time.Now()
	l.mu.Lock()
	turn := make(chan struct{})
	if l.room > 0 {
		l.room--
		close(turn)
	} else {
		l.queue = append(l.queue, turn)
	}
	l.mu.Unlock()
	wait(ctx, turn)
	began := time.Now()
	select {
	case <-time.After(took):
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 {
		close(l.queue[0])
		l.queue = l.queue[1:]
	} else {
		l.room++
	}
	if l.unseen {
		return plan.StepResult{Ran: time.Since(came)}
	}
	return plan.StepResult{Queued: began.Sub(came), Ran: time.Since(began)}
}

func wait(ctx context.Context, turn <-chan struct{}) {
	select {
	case <-turn:
	case <-ctx.Done():
	}
}
