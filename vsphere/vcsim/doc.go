// Package vcsim is the embedded vCenter: govmomi's simulator in this process, as strict as a real vCenter wherever VmGroup depends on it.
// `vmgroup serve --simulator` and the tests run on it.
//
// It extends the simulator's objects by embedding and overriding, as govmomi's simulator/example_extend_test.go does, but wraps them per
// call (endpoint.go) instead of storing the wrappers in the registry: the simulator asserts its own types in many places, and this way
// objects that appear later are extended, too.
//
// What govmomi v0.56.0 lacks, and this package adds:
//
//   - Privileges are not enforced: simulator/authorization_manager.go only lists them (rights.go, hide.go).
//   - ModifyListView and WaitForUpdatesEx deadlock (simulator/property_filter.go:35, :64), a wait outlives its client
//     (simulator/property_collector.go:856), and reads encode and decode each object as XML (:464), which takes more than half of the
//     processor time of a life (stream.go, collector.go, properties.go).
//   - A stale changeVersion is accepted, hot-plug is not checked, a clone inherits no extraConfig and keeps its template's lock,
//     destroying a folder keeps its VMs, and QueryEvents knows no chains (machine.go, clone.go, folder.go, event.go).
//   - DRS places nothing, guests report nothing, VMs raise no questions, and hosts and unregistered VMs do not return (drs.go, guest.go,
//     identity.go, power.go, removed.go).
//   - First-class disks are known by name only (fcd.go).
//   - simulator/fault_injection.go only has faults of SOAP calls, and no lost reply, stall, or end of a session or connection (wire.go,
//     serve.go).
//   - In-process calls (simulator.Service.RoundTrip) have one session for all clients, and their answers share the simulator's memory
//     (direct.go).
//
// Three rules prevent the deadlocks and races of the plain simulator, and make it work in a testing/synctest bubble:
//
//   - Each call except a wait holds the world lock, and so does a task while it does its work: the inventory does not change during a read.
//   - No lock is held across a sleep or a wait unless its waiters block durably (world.go).
//   - Close ends everything that a vCenter has started: calls, waits, tasks, booting guests, connections.
//
// Start is the exception to the second rule: while the simulator creates an inventory, it waits under a lock that all vCenters of the
// process share. In one bubble, start one vCenter after the other.
//
// Lock order: a stream's wait, the world, the simulator's locks of objects, mutexes, which are held only briefly.
//
// Some features are only recorded for Details: storage policies move nothing, a linked clone names its parent's file but stores no data,
// and DRS rules place no VM.
package vcsim
