// Package inventory is the observed state of vCenter: which VMs belong to which group, where groups have their folders, and which
// templates and clusters exist.
//
// A Stream follows which objects change, a Reader reads them, and an Inventory keeps the readings and answers from memory: publish.go stores
// readings in the objects (objects.go, templates.go, places.go, clusters.go); state.go answers for a group; groups.go and folders.go answer
// other questions about groups and folders; requests.go keeps what groups asked for; groupfolder.go finds the groups' folders; candidates.go
// finds the VMs that they can adopt; and missing.go keeps the members that are not found.
//
// The package promises that an older fact never overwrites a newer one; that unknown is not empty: an object that was not read, or whose state
// is unclear, is never reported as gone; that a member is gone only if package removalcause found that it was destroyed, or if its stamp was
// removed; that slices it returns are immutable; and that an answer makes no call and waits for nothing. Reader.Read returns after a
// read that began after its call, and Reader.Report when the inventory has the result of a task.
//
// Locks: Inventory.mu guards the objects, and requests.mu the requests; code that needs both takes Inventory.mu first. No other package can
// take them, and neither is held across a call or while changed is called. Reader.mu guards the wanted and the running reads; code that holds
// it takes no other lock.
package inventory
