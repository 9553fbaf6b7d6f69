package world

import "sync"

// These locks may be held across a sleep or a wait. A goroutine waiting for a sync.Mutex is not durably blocked, so in a
// testing/synctest bubble the holder's sleep never ends; a goroutine waiting for these locks is durably blocked.
// (See https://pkg.go.dev/testing/synctest#hdr-Blocking.)
//
// The simulator's locks of objects are sync.Mutexes, and its writers sleep with some of them held, under the world lock. So hold World, at
// least for reading, before you wait for one.

// Lock is a mutex. NewLock creates one.
type Lock chan struct{}

// NewLock returns an unlocked Lock.
func NewLock() Lock { return make(Lock, 1) }

// Lock implements sync.Locker.
func (l Lock) Lock() { l <- struct{}{} }

// Unlock implements sync.Locker.
func (l Lock) Unlock() { <-l }

// rwLock works like a sync.RWMutex: a waiting writer blocks new readers. The zero value is unlocked.
type rwLock struct {
	mu      sync.Mutex // held only briefly
	changed *sync.Cond
	readers int
	writers int // waiting
	writing bool
}

// wait waits for a condition. The caller holds mu.
func (l *rwLock) wait(until func() bool) {
	if l.changed == nil {
		l.changed = sync.NewCond(&l.mu)
	}
	for !until() {
		l.changed.Wait()
	}
}

// Lock locks l for writing.
func (l *rwLock) Lock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writers++
	l.wait(func() bool { return !l.writing && l.readers == 0 })
	l.writers--
	l.writing = true
}

// Unlock unlocks l for writing.
func (l *rwLock) Unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = false
	l.changed.Broadcast()
}

// RLock locks l for reading. It is not reentrant.
func (l *rwLock) RLock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wait(func() bool { return !l.writing && l.writers == 0 })
	l.readers++
}

// RUnlock unlocks l for reading.
func (l *rwLock) RUnlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers--; l.readers == 0 {
		l.changed.Broadcast()
	}
}
