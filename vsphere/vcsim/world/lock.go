package world

import "sync"

// The locks here are for what is held while somebody sleeps or waits. Who waits for a sync.Mutex is not durably blocked,
// so in a testing/synctest bubble time stands still for the one who holds it and sleeps; who waits for these is.
// (See https://pkg.go.dev/testing/synctest#hdr-Blocking.)

// Lock is a mutex. Make one with NewLock.
type Lock chan struct{}

// NewLock is unlocked.
func NewLock() Lock { return make(Lock, 1) }

// Lock implements sync.Locker.
func (l Lock) Lock() { l <- struct{}{} }

// Unlock implements sync.Locker.
func (l Lock) Unlock() { <-l }

// rwLock is like a sync.RWMutex: once somebody waits to write, nobody more begins to read. The zero value is ready.
type rwLock struct {
	mu      sync.Mutex // held for moments only
	changed *sync.Cond
	readers int
	writers int // that wait
	writing bool
}

// wait waits until a condition holds. mu is held.
func (l *rwLock) wait(until func() bool) {
	if l.changed == nil {
		l.changed = sync.NewCond(&l.mu)
	}
	for !until() {
		l.changed.Wait()
	}
}

// Lock locks it for writing.
func (l *rwLock) Lock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writers++
	l.wait(func() bool { return !l.writing && l.readers == 0 })
	l.writers--
	l.writing = true
}

// Unlock ends writing.
func (l *rwLock) Unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = false
	l.changed.Broadcast()
}

// RLock locks it for reading. Who holds it already must not.
func (l *rwLock) RLock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wait(func() bool { return !l.writing && l.writers == 0 })
	l.readers++
}

// RUnlock ends reading.
func (l *rwLock) RUnlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers--; l.readers == 0 {
		l.changed.Broadcast()
	}
}
