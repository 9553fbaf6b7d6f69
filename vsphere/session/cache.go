// This file keeps vCenter's answers for a while, because many members are cloned the same way. Answers are valid for one session. Only one
// caller at a time asks for an answer.
//
// Locks: Cache.mu is taken alone and never held across a call. A caller that asks for an answer holds the answer's turn.

package session

import (
	"context"
	"sync"
	"time"
)

const (
	// KnownFor is how long vCenter's answers are reused: many members are cloned the same way.
	KnownFor = time.Minute
	// lookAgain is the age from which on an answer is replaced by a new one if it lacks the object that is looked for.
	lookAgain = 3 * time.Second
	// most bounds the number of answers in a Cache.
	most = 1000
)

// Cache keeps answers of one kind. Its zero value is empty.
type Cache[K comparable, V any] struct {
	mu    sync.Mutex
	epoch int64 // of the session that gave the answers
	kept  map[K]*kept[V]
}

// kept is one answer. turn guards it.
type kept[V any] struct {
	turn  chan struct{}
	value V
	at    time.Time
}

// Get returns an answer that is no older than age. If there is none, one caller calls ask, and the others wait
// for its answer. Failures are not kept.
func (f *Cache[K, V]) Get(ctx context.Context, s *Session, key K, age time.Duration, ask func() (V, error)) (value V, err error) {
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

// place returns the place of an answer, which it creates if it is missing.
func (f *Cache[K, V]) place(s *Session, key K) *kept[V] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil || f.epoch != s.Epoch || len(f.kept) > most {
		f.epoch, f.kept = s.Epoch, map[K]*kept[V]{}
	}
	k := f.kept[key]
	if k == nil {
		k = &kept[V]{turn: make(chan struct{}, 1)}
		f.kept[key] = k
	}
	return k
}

// Forget drops all answers.
func (f *Cache[K, V]) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = nil
}

// LookUpIn calls look with an answer of the cache. If look fails, LookUpIn calls it again with an answer that is no older than lookAgain.
func LookUpIn[K comparable, V, R any](ctx context.Context, s *Session, f *Cache[K, V], key K, ask func() (V, error), look func(V) (R, error)) (found R, err error) {
	for _, age := range []time.Duration{KnownFor, lookAgain} {
		value, err := f.Get(ctx, s, key, age, ask)
		if err != nil {
			return found, err
		}
		if found, err = look(value); err == nil || age == lookAgain {
			return found, err
		}
	}
	return found, err
}
