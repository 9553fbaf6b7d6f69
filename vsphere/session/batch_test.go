package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// batchAsked is a BatchedRead whose calls end after a second, or when they are cancelled.
type batchAsked struct {
	BatchedRead[string, time.Time] // answers when the call began
	mu                             sync.Mutex
	calls                          [][]string
	stuck                          string // a call with this question is not answered
}

type batchKey struct{}

func newBatchAsked() *batchAsked {
	a := &batchAsked{}
	a.Read = func(ctx context.Context, questions []string) (time.Time, error) {
		began := time.Now()
		a.mu.Lock()
		a.calls = append(a.calls, slices.Sorted(slices.Values(questions)))
		a.mu.Unlock()
		takes := time.After(time.Second)
		if slices.Contains(questions, a.stuck) {
			takes = nil
		}
		select {
		case <-takes:
			return began, nil
		case <-ctx.Done():
			return began, ctx.Err()
		}
	}
	return a
}

func TestAnAnswerIsOfACallThatBeganAfterTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBatchAsked()
		var all sync.WaitGroup
		for i, question := range []string{"a", "b", "c", "d", "e"} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * batchGather * 2 / 5)
				at := time.Now()
				began, shared, err := a.Ask(context.Background(), question)
				if err != nil || began.Before(at) {
					t.Errorf("%s asked at %s, and has the answer of a call that began at %s: %v", question, at, began, err)
				}
				if !shared {
					t.Errorf("the question %s has an answer of its own; want a shared one", question)
				}
			})
		}
		all.Wait()
		if want := [][]string{{"a", "b", "c"}, {"d", "e"}}; !slices.EqualFunc(a.calls, want, slices.Equal) {
			t.Errorf("the calls are %v, not %v", a.calls, want)
		}
	})
}

func TestAQuestionThatIsAloneIsAskedInItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, got := newBatchAsked(), []any{}
		ask := a.Read
		a.Read = func(ctx context.Context, questions []string) (time.Time, error) {
			got = append(got, ctx.Value(batchKey{}))
			return ask(ctx, questions)
		}
		ctx := context.WithValue(context.Background(), batchKey{}, "its own")
		_, _, _ = a.Ask(ctx, "a")
		var both sync.WaitGroup
		for _, question := range []string{"b", "c"} {
			both.Go(func() { _, _, _ = a.Ask(ctx, question) })
		}
		both.Wait()
		if !slices.Equal(got, []any{"its own", nil}) {
			t.Errorf("the calls had the values %v; want that of the first question, and none for those that share a call", got)
		}
	})
}

func TestACallEndsWhenNoCallerWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBatchAsked()
		a.stuck = "a"
		short, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		long, cancelLong := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancelLong()
		var both sync.WaitGroup
		for question, ctx := range map[string]context.Context{"a": short, "b": long} {
			both.Go(func() {
				if _, _, err := a.Ask(ctx, question); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the question %s ended with %v; want %v", question, err, context.DeadlineExceeded)
				}
			})
		}
		both.Wait()
		gone, cancelGone := context.WithCancel(context.Background())
		cancelGone()
		_, _, _ = a.Ask(gone, "c")
		if _, shared, err := a.Ask(context.Background(), "d"); shared || err != nil {
			t.Errorf("a question after one that was given up: shared is %t, %v", shared, err)
		}
		if want := [][]string{{"a", "b"}, {"d"}}; !slices.EqualFunc(a.calls, want, slices.Equal) { // a call without a waiting caller would keep the bubble from ending
			t.Errorf("the calls are %v, not %v", a.calls, want)
		}
	})
}

func TestACallWithoutAnAnswerDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBatchAsked()
		a.stuck = "a"
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		go func() { _, _, _ = a.Ask(ctx, "a") }()
		time.Sleep(time.Second)
		began := time.Now()
		if _, _, err := a.Ask(context.Background(), "b"); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("an answer took %s behind a call that vCenter does not answer", took)
		}
	})
}

func TestAPanicInACallIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBatchAsked()
		a.Read = func(context.Context, []string) (time.Time, error) { panic("an answer that no caller expects") }
		if _, _, err := a.Ask(context.Background(), "a"); err == nil {
			t.Error("a call whose function panicked succeeded; want an error")
		}
	})
}
