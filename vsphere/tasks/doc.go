// Package tasks waits for all running tasks of vCenter together, whatever their number: it reads those that may have ended in one call.
//
// It promises that a wait outlives sessions and outages; that a task that vCenter no longer knows ends its wait with
// vcfault.ErrTaskLost; and that nothing is left in vCenter when Run ends.
//
// Locks: Tasks.mu guards which tasks are awaited, and OlderClones.mu the lists of clones. Neither is held across a call of vCenter, and each
// is taken alone.
package tasks
