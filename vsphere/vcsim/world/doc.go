// Package world is the inventory of the embedded vCenter: the simulator's registry, the lock for all of it, copies of its contents, the
// record of changes, and the work that must end before it closes.
//
// The inventory does not change while it is read: every writer holds World for writing and every reader holds it for reading; a Guard does
// so for the call of an object.
//
// Lock order: World before the lock of any object, and those before the mutexes of all packages; the mutexes of this package come last. No
// lock is held across a sleep or a wait unless its waiters block durably (lock.go). World is such a lock because the simulator sleeps under
// it.
package world
