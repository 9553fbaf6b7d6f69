// Package inventory is what vCenter said last: which VMs are whose, where groups have their folders, which templates and clusters
// there are.
//
// A Stream says which objects changed, a Reader reads them, and an Inventory is made of what was read and answers from memory.
//
// It promises that an older fact never overwrites a newer one; that unknown is not empty: what was not read, or cannot be told, is
// never said to be gone; that a member is gone only when a read of its moRef was answered so; that slices it hands out are never
// changed; and that an answer makes no call and waits for nothing. A read that was waited for had begun after it was asked for.
//
// Locks: Inventory.mu guards the facts, Inventory.interest what was asked for; whoever takes both takes mu first. Nobody outside has
// either, and none is held across a call or while changed is called. Reader.mu guards what is wanted and under way; it is taken alone.
package inventory
