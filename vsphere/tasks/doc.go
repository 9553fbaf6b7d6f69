// Package tasks waits for all running tasks of vCenter together: it reads those that may have ended in one call.
//
// It promises that a wait outlives sessions and outages; that a task that vCenter no longer knows ends its wait with
// vcfault.ErrTaskLost; and that nothing is left in vCenter when Run ends.
//
// Locks: Tasks.mu guards the awaited tasks, and OlderClones.mu the lists of clones. Neither is held across a call of vCenter, and code that holds
// one takes no other lock.
package tasks
