package session

import (
	"context"
	"strings"
	"sync"
)

// lastCall remembers which call with a context failed last, or began the last task.
type lastCall struct {
	mu     sync.Mutex
	method string
}

type lastCallKey struct{}

// WithLastCall returns a context, and a function that returns which of the calls made with it failed last, or began the last
// task.
func WithLastCall(ctx context.Context) (context.Context, func() (method string)) {
	last := &lastCall{}
	return context.WithValue(ctx, lastCallKey{}, last), func() string {
		last.mu.Lock()
		defer last.mu.Unlock()
		return last.method
	}
}

// noteCall records a call that was made with a context.
func noteCall(ctx context.Context, method string, err error) {
	last, _ := ctx.Value(lastCallKey{}).(*lastCall)
	if last == nil || err == nil && !strings.HasSuffix(method, "_Task") {
		return
	}
	last.mu.Lock()
	defer last.mu.Unlock()
	last.method = method
}
