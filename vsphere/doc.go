// Package vsphere acts on one vCenter. Each action is one task; Do waits for it and reads the VM afterwards, so that the inventory
// shows the effect when Do returns.
//
// It combines the packages below it: vsphere/session has one login for the whole process, vsphere/inventory the observed state of
// vCenter, vsphere/tasks one wait for all running tasks, vsphere/stamp the owner of a VM, vsphere/tagging tags by name, and
// vsphere/vcfault the typed faults. A clone is built in steps, which are one list (clone.go).
//
// It promises that it acts only on the group's own members and folder; that every step may be retried, whatever the last try
// did; that it makes no call for a step whose lease has ended; and that errors are *vcfault.Error.
//
// Locks: fieldBook and batchedRead have a mutex each that guards their fields; it is taken alone and never held across a call. A
// goroutine that has the turn at a kept answer, or the tag book open, keeps it while it asks vCenter, and takes no other turn meanwhile.
package vsphere
