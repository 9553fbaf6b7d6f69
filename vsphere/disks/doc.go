// Package disks has the disks of VMs: which of them are a VM's own, what the spec gives to members, and the persistent ones, which outlive
// their VMs; and it fingerprints a template's disks, to notice another version of them.
//
// Of a VM's own disks (disks.go) it promises that a first-class disk is never one, and that a VM without a record, one of an older server or
// one that was adopted, is judged by the directories of its disks alone. In doubt a disk is from elsewhere, and so kept: better a disk too
// many than one too few, and the log names it.
//
// A persistent disk is a first-class disk (FCD, VStorageObject), which itself says whose it is, in its metadata. FirstClass makes the calls:
// each is one call or one task of vCenter, and tries nothing again. Errors are *vcfault.Error, with the reasons in faults.go. Persistent finds,
// makes, checks and deletes the disks of an ordinal (persistent.go).
//
// Three things must stay true. Not found is not gone: Storage DRS moves attached disks, and vCenter's catalogue can lag, so only an operator
// decides that a disk is gone. Unknown is not empty: Find says when it could not read all that it was asked about. And what takes a disk
// to a VM, or from it, is a reconfigure guarded by the VM's changeVersion: AttachDisk_Task and DetachDisk_Task take none, so one that
// reaches vCenter late would attach a disk to a VM that is another member's by then. (VMware's own sample attaches first-class disks by
// ReconfigVM_Task: attach_fcd_to_vm.py in vmware/pyvmomi-community-samples.)
//
// The methods are those of VcenterVStorageObjectManager. The catalogue of /vslm (VslmListVStorageObjectForSpec), which is asked by
// metadata, is not used: it can lag behind the datastores (VslmDatastoreSyncStatus), so an answer without a disk would prove
// nothing, and each disk in it would have to be read again.
//
// Locks: owners.mu is taken last.
package disks
