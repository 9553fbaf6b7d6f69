// Package vcsim is the embedded vCenter: govmomi's simulator in this process, made as strict as a
// real vCenter in the places that VmGroup leans on. `vmgroup serve --simulator` runs on it, and so
// do the tests.
//
// It extends the simulator's objects by embedding and overriding, as govmomi's
// simulator/example_extend_test.go does, but wraps them when they are called (dispatch.go) instead of
// storing the wrapped ones in the registry: the simulator asserts its own types in many places, and
// this way whatever appears later is extended too.
//
// Three rules keep it free of deadlocks and races, which the plain simulator is not, and let it live in a bubble of
// testing/synctest:
//
//   - The inventory stands still while it is read. Whatever changes it holds `world` for writing, whatever reads it
//     holds it for reading, and both take it before any lock of an object. A call that only begins a task holds it for
//     reading, too, so that it never waits for an object's lock behind a task that sleeps (dispatch.go).
//   - No lock is held across a sleep or a wait unless those who wait for it block durably (lock.go). A task waits out
//     its latency with no lock at all, and does its work under `world` (task.go), since the simulator's own work may
//     sleep. Whatever of the simulator's sleeps with an object locked is done so, or anew (relocate.go). The update
//     stream is our own (stream.go): it tells the difference between two reads, and waits with no lock but its own.
//   - Everything that a vCenter starts ends with Close: calls, waits, tasks, guests that boot, connections.
//
// Start is the exception to the second: the simulator waits while it makes an inventory, under a lock that all vCenters
// of the process share. In one bubble, start one vCenter after the other.
//
// Beside the SOAP API at /sdk there are the storage policy service at /pbm (pbm.go: our own) and the REST API under
// /rest and /api (rest.go: the simulator's behind sessions of ours, tag.go). Outages, faults, lost replies and counts
// are for all of them.
//
// Some things are only taken down, for a test to read with Details: storage policies move nothing, a linked clone
// names its parent's file but stores nothing in it, and rules of DRS place no VM.
package vcsim
