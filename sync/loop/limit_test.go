package loop

import (
	"context"
	"sync"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// limit is a vCenter's bound on what takes time: it carries out so many at once, in the order in which they came, and queues the others.
type limit struct {
	mu   sync.Mutex
	room int
	slow int // all takes so many times as long
	// unseen makes what is queued say that it runs.
	unseen bool
	queue  []chan struct{}
	now    int // queued and running
	most   int // of these, so far
	begun  int
}

func (l *limit) carryOut(ctx context.Context, took time.Duration) plan.Took {
	came := time.Now()
	l.mu.Lock()
	l.now++
	l.begun++
	l.most = max(l.most, l.now)
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
	l.mu.Lock()
	took *= time.Duration(max(l.slow, 1))
	l.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now--; len(l.queue) > 0 {
		close(l.queue[0])
		l.queue = l.queue[1:]
	} else {
		l.room++
	}
	if l.unseen {
		return plan.Took{Ran: time.Since(came)}
	}
	return plan.Took{Queued: began.Sub(came), Ran: time.Since(began)}
}

func wait(ctx context.Context, turn <-chan struct{}) {
	select {
	case <-turn:
	case <-ctx.Done():
	}
}

func (l *limit) setSlow(times int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow, l.most, l.begun = times, 0, 0
}

// sofar returns how many ran at once at most, and how many began, since setSlow.
func (l *limit) sofar() (most, begun int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most, l.begun
}
