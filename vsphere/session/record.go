package session

import (
	"context"
	"strings"
	"sync"

	"codeconnect.vmworld.com/vmgroup/sync/secret"
)

// Record collects facts about the calls of one step. They affect messages only, never what the server does. It is a value of the calls' context
// because govmomi passes nothing else of the caller to its RoundTripper, through which every request and answer goes.
type Record struct {
	// Secrets are the secrets in the requests: a fault may repeat them.
	Secrets secret.Bag

	mu     sync.Mutex
	method string
}

type recordKey struct{}

// WithRecord returns a context whose calls are recorded in r.
func WithRecord(ctx context.Context, r *Record) context.Context {
	return context.WithValue(ctx, recordKey{}, r)
}

// recordOf returns the record of a context; nil if it has none.
func recordOf(ctx context.Context) *Record {
	r, _ := ctx.Value(recordKey{}).(*Record)
	return r
}

// SecretsOf returns the secrets that calls with that context have sent; nil if the context has no Record.
func SecretsOf(ctx context.Context) *secret.Bag {
	if r := recordOf(ctx); r != nil {
		return &r.Secrets
	}
	return nil
}

// Method returns the method of the call that failed last, or that began the last task.
func (r *Record) Method() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.method
}

// note records a call; r can be nil.
func (r *Record) note(method string, err error) {
	if r == nil || err == nil && !strings.HasSuffix(method, "_Task") {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.method = method
}
