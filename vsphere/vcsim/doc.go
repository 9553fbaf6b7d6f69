// Package vcsim is the embedded vCenter: govmomi's simulator in this process, made as strict as a
// real vCenter in the places that VmGroup leans on. `vmgroup serve --simulator` runs on it, and so
// do the tests.
//
// It extends the simulator's objects by embedding and overriding, as govmomi's
// simulator/example_extend_test.go does, but wraps them when they are called (dispatch.go) instead of
// storing the wrapped ones in the registry: the simulator asserts its own types in many places, and
// this way whatever appears later is extended too.
//
// Three rules keep it free of deadlocks and races, which the plain simulator is not:
//
//   - The inventory stands still while it is read. Whatever changes it holds `world` for writing,
//     whatever reads it holds it for reading, and both take it before any lock of an object.
//   - A task waits out its latency with no lock at all, and does its work under `world` (task.go).
//   - The update stream is our own (stream.go): it tells the difference between two reads.
//
// Beside the SOAP API at /sdk there are the storage policy service at /pbm (pbm.go: our own) and the REST API under
// /rest and /api (rest.go: the simulator's behind sessions of ours, tag.go). Outages, faults, lost replies and counts
// are for all of them.
//
// Some things are only taken down, for a test to read with Details: storage policies move nothing, a linked clone
// names its parent's file but stores nothing in it, and rules of DRS place no VM.
package vcsim
