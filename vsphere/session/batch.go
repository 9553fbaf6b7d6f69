package session

import (
	"context"
	"sync"
	"time"
)

// batchGather is how long a batch waits for more questions.
const batchGather = 10 * time.Millisecond

// BatchedRead answers all questions that are asked within batchGather by one read.
type BatchedRead[Q comparable, A any] struct {
	Read func(ctx context.Context, questions []Q) (A, error)

	mu   sync.Mutex
	next *batch[Q, A] // gathers questions; nil if none came since the last read began
}

// batch is one read. answer and err are valid once ended is closed; questions does not change once the read has begun.
type batch[Q comparable, A any] struct {
	questions []Q
	waiting   int             // the callers that still wait for the answer
	first     context.Context // of the first question
	ctx       context.Context // ends when no caller waits any more
	cancel    context.CancelFunc
	ended     chan struct{}
	answer    A
	err       error
}

// Ask returns the answer of a read that began after this call, and whether the read had other questions, too.
func (r *BatchedRead[Q, A]) Ask(ctx context.Context, question Q) (answer A, shared bool, err error) {
	r.mu.Lock()
	x := r.next
	if x == nil {
		x = &batch[Q, A]{first: ctx, ended: make(chan struct{})}
		x.ctx, x.cancel = context.WithCancel(context.Background())
		time.AfterFunc(batchGather, func() { r.run(x) })
		r.next = x
	}
	x.questions = append(x.questions, question)
	x.waiting++
	r.mu.Unlock()
	select {
	case <-x.ended:
		return x.answer, len(x.questions) > 1, x.err
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		if x.waiting--; x.waiting == 0 {
			if x.cancel(); r.next == x {
				r.next = nil
			}
		}
		return answer, false, ctx.Err()
	}
}

// run makes the read of a batch: with the caller's context if there is one question, because several questions have no context in common.
func (r *BatchedRead[Q, A]) run(x *batch[Q, A]) {
	defer close(x.ended)
	defer x.cancel()
	r.mu.Lock()
	if r.next == x {
		r.next = nil
	}
	questions, ctx := x.questions, x.ctx
	if len(questions) == 1 {
		ctx = x.first
	}
	r.mu.Unlock()
	if x.ctx.Err() != nil {
		return
	}
	x.err = Contained("a read", func() (err error) {
		x.answer, err = r.Read(ctx, questions)
		return err
	})
}
