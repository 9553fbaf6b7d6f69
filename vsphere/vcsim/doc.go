// Package vcsim is the embedded vCenter: govmomi's simulator in this process, made as strict as a
// real vCenter in the places that VmGroup leans on. `vmgroup serve --simulator` runs on it, and so
// do the tests.
//
// It extends the simulator's objects by embedding and overriding, as govmomi's
// simulator/example_extend_test.go does, but wraps them when they are called (dispatch.go) instead of
// storing the wrapped ones in the registry: the simulator asserts its own types in many places, and
// this way whatever appears later is extended too.
//
// This package is the endpoint: sessions, calls and what each of them is answered by, and the names that its users need.
// What the objects do is in the packages below, which no other package imports:
//
//   - world: the inventory, its lock, and what changed when
//   - managed: VMs and guests, folders, clusters, and the tasks
//   - cloudinit: the metadata that a guest reads
//   - property: reads of properties, and the stream of changes
//   - rights: what clients may do and see
//   - wire: the network, and the faults of calls
//   - rest, policy: the REST API under /rest and /api, and storage policies under /pbm
//   - seed: what a new inventory has
//   - operator: a person who works with vCenter
//
// Three rules keep it free of deadlocks and races, which the plain simulator is not, and let it live in a bubble of
// testing/synctest:
//
//   - The inventory stands still while it is read (world). A call that only begins a task holds the world for reading, so
//     that it never waits for an object's lock behind a task that sleeps.
//   - No lock is held across a sleep or a wait unless those who wait for it block durably (world/lock.go).
//   - Everything that a vCenter starts ends with Close: calls, waits, tasks, guests that boot, connections.
//
// Start is the exception to the second: the simulator waits while it makes an inventory, under a lock that all vCenters
// of the process share. In one bubble, start one vCenter after the other.
//
// The order of locks: door, which is held while a call's session is looked up or sessions are dropped; then the world; then the
// locks of objects; then any mutex. Those are held for moments only.
//
// Some things are only taken down, for a test to read with Details: storage policies move nothing, a linked clone
// names its parent's file but stores nothing in it, and rules of DRS place no VM.
package vcsim
