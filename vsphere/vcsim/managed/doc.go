// Package managed is what the managed objects of the embedded vCenter do when they are called: VMs and their guests, folders,
// clusters, storage and custom attributes; the tasks that do it; and what an operator may do to them for which vCenter has no
// call.
//
// It promises that a call is answered as a real vCenter answers it, where VmGroup depends on that: each method cites the
// documentation. A task waits out its latency with no lock at all, and does its work under the world, since the simulator's
// own work may sleep. Whatever of the simulator's sleeps with an object locked is done so, or in another way (relocate.go).
//
// The order of locks: the world, the object, mu. mu is held for moments only, and never across a call of the simulator.
package managed
