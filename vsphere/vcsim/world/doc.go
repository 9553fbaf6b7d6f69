// Package world is the inventory of the embedded vCenter, and who may look at it when: the simulator's registry, the lock of all
// of it, copies of what is in it, what changed since when, and what is under way and has to end with it.
//
// It promises that the inventory stands still while it is read. Whatever changes it holds World for writing, whatever reads
// it holds World for reading; a Guard does so for the call of an object.
//
// The order of locks: World before any lock of an object, and those before the mutexes of any package; those of changes and
// of what is under way come last. No lock is held across a sleep or a wait unless those who wait for it block durably
// (lock.go); World is such a lock, since the simulator sleeps under it.
package world
