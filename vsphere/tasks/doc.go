// Package tasks waits for all running tasks of vCenter together: with one property collector, one filter and one list of the tasks,
// whatever their number.
//
// It promises that a wait outlives sessions and outages; that a task that vCenter no longer knows ends its wait with
// vcfault.ErrTaskLost; that no wait lasts forever because one update was missed; and that nothing is left in vCenter when Run ends.
//
// Locks: Tasks.mu guards which tasks are awaited, and OlderClones.mu the lists of clones. Neither is held across a call of vCenter. Signs.Over is
// called with Tasks.mu held, so that it comes before the task's end is told; otherwise each is taken alone.
package tasks
