// Package managed implements the calls of the embedded vCenter's managed objects: VMs and their guests, folders, clusters, storage, custom
// attributes and tasks; and the changes an operator can make that have no call in vCenter.
//
// Calls behave as in a real vCenter wherever VmGroup depends on it; each method cites the documentation. A task waits out its latency
// without a lock and then does its work under the world lock, because the simulator's own work may sleep. Everything in the simulator that
// sleeps with an object locked runs under the world lock or is replaced (relocate.go).
//
// Lock order: the world, the object, mu. mu is held only briefly and never across a call of the simulator.
package managed
