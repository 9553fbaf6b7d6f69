package vsphere

import (
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// keptFolder turns the failure to remove an empty folder into FolderStays, if vCenter will refuse it again: a deletion does
// not wait for that, nor for an unmanaged VM in the folder. The server tries no other way: Destroy_Task needs the same
// privilege, and would delete the disks of a VM that gets into the folder.
func (v *VCenter) keptFolder(ref plan.Ref, err error) error {
	if !vcfault.Has[types.BaseNoPermission](err) && !vcfault.Has[*types.NotSupported](err) &&
		!vcfault.Has[*types.NotImplemented](err) && !vcfault.Has[*types.MethodDisabled](err) {
		return err
	}
	v.clones.Forget(ref.UID) // as for a folder that holds unmanaged VMs: a later clone can land in it
	stays := vcfault.New(plan.ReasonFolderStays, false, "The group's folder is empty but stays, because vCenter refuses to remove it: remove it by hand. vCenter's answer: %s",
		vcfault.Classify("", err).Message)
	stays.Err = err
	return stays
}
