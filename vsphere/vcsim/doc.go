// Package vcsim is the embedded vCenter: govmomi's simulator in this process, as strict as a real vCenter wherever VmGroup depends on it.
// `vmgroup serve --simulator` and the tests run on it.
//
// It extends the simulator's objects by embedding and overriding, as govmomi's simulator/example_extend_test.go does, but wraps them per
// call (endpoint.go) instead of storing the wrappers in the registry: the simulator asserts its own types in many places, and this way
// objects that appear later are extended, too.
//
// Three rules prevent the deadlocks and races of the plain simulator, and make it work in a testing/synctest bubble:
//
//   - The inventory does not change while it is read (world.go). A call that only begins a task holds the world lock for reading, so that it
//     never waits for an object's lock behind a task that sleeps.
//   - No lock is held across a sleep or a wait unless its waiters block durably (world.go).
//   - Everything that a vCenter starts ends with Close: calls, waits, tasks, booting guests, connections.
//
// Start is the exception to the second rule: while the simulator creates an inventory, it waits under a lock that all vCenters of the
// process share. In one bubble, start one vCenter after the other.
//
// Lock order: sessionLock, which is held during the lookup of a call's session and while sessions are dropped; then the world lock; then
// the locks of objects; then the mutexes, which are held only briefly.
//
// Some features are only recorded for Details: storage policies move nothing, a linked clone names its parent's file but stores no data,
// and DRS rules place no VM.
package vcsim
