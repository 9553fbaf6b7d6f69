package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestConcurrentLookupsShareOneCall(t *testing.T) {
	t.Parallel()
	var m Cache[string, int]
	var asked atomic.Int32
	s, gate := &Session{Epoch: 1}, make(chan struct{})
	ask := func() (int, error) { <-gate; return int(asked.Add(1)), nil }
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got, err := m.Get(t.Context(), s, "a", time.Minute, ask); got != 1 || err != nil {
				t.Errorf("got %d, %v; want 1 and no error", got, err)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Get(ended, s, "a", time.Minute, func() (int, error) { return 0, ended.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that stops waiting got %v", err)
	}
	close(gate)
	wg.Wait()
	if got, _ := m.Get(t.Context(), s, "a", 0, ask); got != 2 {
		t.Errorf("an answer that is too old is returned: %d; want 2", got)
	}
	if got, _ := m.Get(t.Context(), &Session{Epoch: 2}, "a", time.Minute, ask); got != 3 {
		t.Errorf("another session's answer is returned: %d; want 3", got)
	}
	m.Forget()
	if got, _ := m.Get(t.Context(), &Session{Epoch: 2}, "a", time.Minute, ask); got != 4 {
		t.Errorf("a forgotten answer is returned: %d; want 4", got)
	}
}

func TestAFailureIsNotRememberedAndAMissIsLookedUpOnceMore(t *testing.T) {
	t.Parallel()
	var m Cache[string, int]
	s, calls := &Session{Epoch: 1}, 0
	if _, err := m.Get(t.Context(), s, "a", time.Minute, func() (int, error) { return 0, errors.New("odd") }); err == nil {
		t.Error("a failure is not returned")
	}
	ask := func() (int, error) { calls++; return calls, nil }
	miss := errors.New("missing")
	look := func(n int) (int, error) { return n, miss }
	if _, err := LookUpIn(t.Context(), s, &m, "a", ask, look); !errors.Is(err, miss) || calls != 1 {
		t.Errorf("%d calls, %v: an answer that is new already is not asked for again", calls, err)
	}
	m.kept["a"].at = time.Now().Add(-2 * lookAgain)
	if _, err := LookUpIn(t.Context(), s, &m, "a", ask, look); !errors.Is(err, miss) || calls != 2 {
		t.Errorf("%d calls, %v: one that is some seconds old is", calls, err)
	}
}
