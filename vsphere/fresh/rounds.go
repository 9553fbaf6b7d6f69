package fresh

import (
	"context"
	"sync"
	"time"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

const (
	// gather is how long questions gather before a round, as reads of the inventory do.
	gather = 10 * time.Millisecond
	// patience is how long a round waits for the one before. One that vCenter does not answer holds up no other for longer.
	patience = time.Second
)

// rounds answers questions in rounds: a question that comes while a round runs is answered by the next.
type rounds[Q comparable, A any] struct {
	ask func(ctx context.Context, questions []Q) (A, error)

	mu   sync.Mutex
	next *round[Q, A]    // gathers questions; nil if nobody has asked since the last round began
	last <-chan struct{} // closed when the last round that was made has ended
}

// round is one call. Its answer is read after ended is closed, and its questions after it has begun.
type round[Q comparable, A any] struct {
	questions []Q
	waiting   int             // how many still wait for the answer
	first     context.Context // of the first question
	deserted  chan struct{}   // closed when none does any more
	ended     chan struct{}
	answer    A
	err       error
}

// Ask returns the answer of a round that began after this call, and whether that round had other questions, too.
func (r *rounds[Q, A]) Ask(ctx context.Context, question Q) (answer A, shared bool, err error) {
	r.mu.Lock()
	x := r.next
	if x == nil {
		x = &round[Q, A]{first: ctx, deserted: make(chan struct{}), ended: make(chan struct{})}
		go r.run(x, r.last)
		r.next, r.last = x, x.ended
	}
	x.questions = append(x.questions, question)
	x.waiting++
	r.mu.Unlock()
	select {
	case <-x.ended:
		return x.answer, len(x.questions) > 1, x.err
	case <-ctx.Done():
		r.leave(x)
		return answer, false, ctx.Err()
	}
}

// leave ends a wait for a round.
func (r *rounds[Q, A]) leave(x *round[Q, A]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.waiting--; x.waiting > 0 {
		return
	}
	close(x.deserted)
	if r.next == x {
		r.next = nil
	}
}

// run makes the call of a round. A question that is alone is asked in its own context; several have none in common.
func (r *rounds[Q, A]) run(x *round[Q, A], before <-chan struct{}) {
	defer close(x.ended)
	if before != nil && !x.wait(patience, before) || !x.wait(gather, nil) {
		return
	}
	r.mu.Lock()
	if r.next == x {
		r.next = nil
	}
	questions, ctx := x.questions, x.first
	r.mu.Unlock()
	if len(questions) > 1 {
		ctx = context.Background()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-x.deserted:
			cancel()
		case <-ctx.Done():
		}
	}()
	x.err = session.Contained("a read", func() (err error) {
		x.answer, err = r.ask(ctx, questions)
		return err
	})
}

// wait waits that long, or until ready, and reports whether anybody still waits for the round.
func (x *round[Q, A]) wait(most time.Duration, ready <-chan struct{}) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ready:
	case <-x.deserted:
		return false
	}
	return true
}
