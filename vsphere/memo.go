package vsphere

import (
	"context"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/hosts"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

const (
	// knownFor is how long vCenter's answers are reused: many members are cloned alike.
	knownFor = time.Minute
	// lookAgain is the minimum age of an answer that is asked for again because it lacks what is looked for.
	lookAgain = 3 * time.Second
	// memoMost bounds how many answers of a kind are kept.
	memoMost = 1000
)

// lookups keep what clones look up, so that fifty of them need one answer. They hold for one session: with the next,
// or when an object turns out to be gone, everything is asked for again.
type lookups struct {
	sources    memo[sourceKey, *source]
	computes   memo[string, *computes]
	reach      memo[string, *reach]
	hosts      memo[string, []hosts.Host]
	storage    memo[string, *storage]
	networks   memo[string, *networks]
	policies   memo[string, *policyBook]
	compatible memo[compatibleKey, map[string]bool]
	customs    memo[string, *types.CustomizationSpec]
	extensions memo[string, *types.Extension]
}

// forget drops all answers.
func (l *lookups) forget() {
	l.sources.forget()
	l.computes.forget()
	l.reach.forget()
	l.hosts.forget()
	l.storage.forget()
	l.networks.forget()
	l.policies.forget()
	l.compatible.forget()
	l.customs.forget()
	l.extensions.forget()
}

// memo keeps answers of one kind. Its zero value is empty.
type memo[K comparable, V any] struct {
	mu    sync.Mutex
	epoch int64 // of the session that the answers are from
	kept  map[K]*kept[V]
}

// kept is one answer. turn guards it.
type kept[V any] struct {
	turn  chan struct{}
	value V
	at    time.Time
}

// get returns an answer that is no older than age, and asks for it if there is none: one caller asks, the others wait
// for the answer. Failures are not kept.
func (f *memo[K, V]) get(ctx context.Context, s *session.Session, key K, age time.Duration, ask func() (V, error)) (value V, err error) {
	k := f.place(s, key)
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return value, ctx.Err()
	}
	if !k.at.IsZero() && time.Since(k.at) < age {
		return k.value, nil
	}
	began := time.Now()
	if value, err = ask(); err != nil {
		return value, err
	}
	k.value, k.at = value, began
	return value, nil
}

// place finds or creates the place of an answer.
func (f *memo[K, V]) place(s *session.Session, key K) *kept[V] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil || f.epoch != s.Epoch || len(f.kept) > memoMost {
		f.epoch, f.kept = s.Epoch, map[K]*kept[V]{}
	}
	k := f.kept[key]
	if k == nil {
		k = &kept[V]{turn: make(chan struct{}, 1)}
		f.kept[key] = k
	}
	return k
}

func (f *memo[K, V]) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = nil
}

// looking looks something up in a memo's answer, and, if that lacks it, in a newer answer.
func looking[K comparable, V, R any](ctx context.Context, s *session.Session, f *memo[K, V], key K, ask func() (V, error), look func(V) (R, error)) (found R, err error) {
	for _, age := range []time.Duration{knownFor, lookAgain} {
		value, err := f.get(ctx, s, key, age, ask)
		if err != nil {
			return found, err
		}
		if found, err = look(value); err == nil || age == lookAgain {
			return found, err
		}
	}
	return found, err
}
