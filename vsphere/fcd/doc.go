// Package fcd makes the calls on first-class disks (FCD, VStorageObject), which outlive the VMs that they are attached to. The disk
// itself says whose it is, in its metadata: the owner, a nonce of whoever created it, and whether it was ever bound to its owner.
//
// Each call is one call or one task of vCenter, and tries nothing again. Errors are *vcfault.Error, with the reasons in faults.go.
//
// Three things must stay true. Not found is not gone: Storage DRS moves attached disks, and vCenter's catalogue can lag, so only a person
// decides that a disk is gone. Unknown is not empty: Find says when it could not read all that it was asked about. And what takes a disk
// to a VM, or from it, is a reconfigure guarded by the VM's changeVersion: AttachDisk_Task and DetachDisk_Task take none, so one that
// reaches vCenter late would attach a disk to a VM that is another member's by then. (VMware's own sample attaches first-class disks by
// ReconfigVM_Task: attach_fcd_to_vm.py in vmware/pyvmomi-community-samples.)
//
// The methods are those of VcenterVStorageObjectManager. The catalogue of /vslm (VslmListVStorageObjectForSpec), which is asked by
// metadata, is not used: it can lag behind the datastores (VslmDatastoreSyncStatus), so an answer without a disk would prove
// nothing, and each disk in it would have to be read again.
//
// Locks: book.mu is taken last.
package fcd
