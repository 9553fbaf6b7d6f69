package session

import (
	"context"
	"strings"
	"sync"

	"codeconnect.vmworld.com/vmgroup/sync/secret"
)

// Record is what the calls of one step leave behind. It only decides what texts say, never what is done. It is a value of their context
// because govmomi passes nothing else of the caller to its RoundTripper, which every request and answer goes through.
type Record struct {
	// Secrets are what the requests have in them that nobody must see: a fault may echo it.
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

// SecretsOf returns what calls with that context have sent that nobody must see; nil if they are not recorded.
func SecretsOf(ctx context.Context) *secret.Bag {
	if r := recordOf(ctx); r != nil {
		return &r.Secrets
	}
	return nil
}

// Method returns which call failed last, or began the last task.
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
