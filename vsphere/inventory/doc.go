// Package inventory is the observed state of vCenter: which VMs belong to which group, where groups have their folders, and which
// templates and clusters exist.
//
// A Stream follows which objects change, a Reader reads them, and an Inventory is made from the readings and answers from memory: publish.go
// takes what was read into the objects (objects.go, templates.go, places.go, clusters.go), state.go answers for a group, groups.go and
// folders.go what else is asked about those, requests.go keeps what groups asked for, groupfolder.go finds where they have their folders,
// candidates.go what they can adopt, and missing.go what is not found.
//
// It promises that an older fact never overwrites a newer one; that unknown is not empty: an object that was not read, or whose state
// is unclear, is never reported as gone; that a member is gone only if package removalcause found that it was destroyed, or its stamp was taken
// off; that slices it returns are immutable; and that an answer makes no call and waits for nothing. Reader.Read returns after a
// read that began after its call, and Reader.Report once what a task has done is known.
//
// Locks: Inventory.mu guards the objects, requests.mu what was asked for; code that needs both takes Inventory.mu first. No other package can
// take them, and neither is held across a call or while changed is called. Reader.mu guards what is wanted and in flight; it is taken alone.
package inventory
