// Package vsphere acts on one vCenter: each action is one task, awaited, and its VM read afterwards, so that whoever looks after Do
// returned sees what was done.
//
// It puts the packages below it together: vsphere/session has one login for the whole process, vsphere/inventory what vCenter said
// last, vsphere/tasks one wait for all running tasks, vsphere/stamp whose a VM is, vsphere/tagging tags by name, and vsphere/vcfault
// the typed faults. A clone is put together in steps, which are one list (clone.go).
//
// It promises that nothing is acted on but the group's own members and folder; that every step may be tried again, whatever became of
// the last try; that no call is made for a step whose lease has ended; and that errors are *vcfault.Error.
//
// Locks: memo, fieldBook and clones each have a mutex that guards their fields, taken alone and held across no call. Who has a turn at
// a kept answer, or the tag book open, has it alone while vCenter is asked, and takes no other turn meanwhile.
package vsphere
