// Package disks handles the disks of VMs: it finds out which disks are a VM's own, adds the disks of the spec to members, and manages
// persistent disks, which outlive their VMs. It also makes fingerprints of a template's disks, by which the server notices another version.
//
// For a VM's own disks (disks.go) it promises that a first-class disk is never one, that a name never makes a disk the VM's own, and that for a VM without a
// record, which an older server cloned or adopted, only the directories of its disks count. In doubt, a disk is foreign: it is kept, and the log names it, because
// a disk too many can be deleted later, and a deleted disk can't be restored.
//
// A persistent disk is a first-class disk (FCD, VStorageObject) whose metadata names its owner. FirstClass makes the calls: each method
// is one call or one task of vCenter, without a retry. Errors are *vcfault.Error, with the reasons in faults.go. Persistent finds,
// makes, checks and deletes the disks of an ordinal (persistent.go).
//
// Three invariants hold. Not found is not gone: Storage DRS moves attached disks, and vCenter's catalogue can lag, so only an operator
// decides that a disk is gone. Unknown is not empty: Find reports the datastores that it could not read. And a disk is attached and detached
// only by a reconfigure that is guarded by the VM's changeVersion: AttachDisk_Task and DetachDisk_Task have no such guard, so a call
// that reaches vCenter late could attach a disk to a VM that should no longer have it. (VMware's own sample attaches first-class disks by
// ReconfigVM_Task: attach_fcd_to_vm.py in vmware/pyvmomi-community-samples.)
//
// The methods are those of VcenterVStorageObjectManager. The catalogue of /vslm (VslmListVStorageObjectForSpec), which can be searched by
// metadata, is not used: it can lag behind the datastores (VslmDatastoreSyncStatus), so an answer without a disk would not prove that the
// disk doesn't exist, and each disk in an answer would have to be read again.
//
// Locks: owners.mu is taken after all other locks.
package disks
