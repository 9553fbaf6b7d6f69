// Package fcd has the first-class disks (FCD, VStorageObject) of the embedded vCenter, which outlive the VMs that they are attached to.
// govmomi's simulator knows them by name only: it attaches no device, drops the metadata of a creation, and lets a second VM attach.
//
// A disk is in the VMs that have a device with its id: nothing else records that, so it holds for snapshots, and for VMs that leave the
// inventory. What vCenter does not document is refused here, and an operator's helper permits it.
//
// The world lock guards everything. Package managed calls CheckChange, CheckPowerOn, PoweredOn, Destroying and Relocated with it held for writing.
package fcd
