// Package inventory is the observed state of vCenter: which VMs belong to which group, where groups have their folders, and which
// templates and clusters exist.
//
// A Stream follows which objects change (stream.go, watched.go), a Reader reads them (reader.go; resync.go, a read of everything; run.go, the loop),
// and an Inventory keeps the readings and answers from memory. publish.go stores readings in the objects (objects.go, places.go, clusters.go).
// state.go answers for a group: weigh.go says which VMs are its own, leaving.go which of them are gone, groupfolder.go where its folder is,
// adopter.go which VMs it can adopt, and named.go which template it names. templates.go, groups.go, folders.go, hosts.go and orphans.go answer
// other questions. What they remember of groups and VMs, each in a type with a lock, is in evidence.go, missing.go, requesters.go, rulerequests.go,
// awaited.go, watched.go and adoptions.go.
//
// plan.VMID identifies a VM (VMID.Is: two records can be of one). What is known of it differs, and so do the types: a Machine is a VM as it was read, a
// Member one with a valid stamp, unmanagedVM the little that is kept of the many others, and Missing a member that is no longer there.
//
// The package promises that an older fact never overwrites a newer one; that unknown is not empty: an object that was not read, or whose state
// is unclear, is never reported as gone; that a member is gone only if package removalcause found that it was destroyed, or if its stamp was
// removed; that slices it returns are immutable; and that an answer makes no call and waits for nothing. Reader.Read returns after a
// read that began after its call, and Reader.Report when the inventory has the result of a task.
//
// Locks: Inventory.mu guards what was read: the objects, the health, and what the settings name. What is remembered beside that is in types with a
// lock of their own, which only their methods take: Evidence, MissingVMs, requesters, ruleRequests, awaitedReads, unreported and adoptions. None of them
// knows the Inventory or another of them, so Inventory.mu is taken first, and of the others only one at a time. Reader.publishing is held while a
// reading is published. Reader.mu guards the wanted and the running reads; code that holds it takes no other lock. No lock is held across a call or
// while changed is called.
package inventory
