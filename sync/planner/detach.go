// This file decides what must be done about the persistent disks of a VM before the VM is destroyed. The next VM of the ordinal
// gets its disks, so the status must list them; or they are deleted with it:
//
//	the stamp of the old VM   the stored status         step
//	------------------------  ------------------------  -----------------------------------------------------------------
//	has the disks             does not list them        none: the next status lists them (they would be forgotten)
//	has the disks             lists them                Destroy, which detaches what is attached first
//	has the disks             lists them otherwise,     none: the next status lists them with this VM, so that they are missed
//	                          retention Delete          when they are deleted
//	has the disks             scaled in or deleted,     DeleteDisks, while the VM with its stamp is there
//	                          retention Delete
//	no longer has them        lists them                none: the next status leaves them out (they would be missed)
//	no longer has them        does not list them        Destroy

package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// detachStep is what comes before the VM is destroyed: nothing, if it is zero.
type detachStep struct {
	// AwaitStatus: the next status must be stored.
	AwaitStatus bool
	// Delete are the IDs of the disks to be deleted.
	Delete []string
}

// beforeDetach returns what comes before the VM with that moRef is destroyed. listed are the disks of the stored status, has
// are the persistent ones in the VM's stamp, and retention says what becomes of a disk when the VM is removed. Once the group is deleted, no next
// VM gets a disk, so the status isn't needed.
func beforeDetach(listed []v1alpha1.PersistentDisk, moRef string, has []plan.MemberDisk, retention func(disk string) v1alpha1.Retention, groupDeleted bool) detachStep {
	var deleted []string
	wait := false
	for _, d := range has {
		if retention(d.Name) == v1alpha1.RetentionDelete {
			deleted = append(deleted, d.ID)
		}
	}
	otherwise := func(was v1alpha1.PersistentDisk) bool { return was.MoRef != moRef && slices.Contains(deleted, was.ID) }
	switch {
	case !groupDeleted && slices.ContainsFunc(listed, otherwise):
		return detachStep{AwaitStatus: true}
	case len(deleted) > 0:
		return detachStep{Delete: deleted}
	case groupDeleted:
		return detachStep{}
	}
	for _, was := range listed {
		wait = wait || was.MoRef == moRef && !slices.ContainsFunc(has, func(d plan.MemberDisk) bool { return d.ID == was.ID })
	}
	for _, d := range has {
		in := slices.ContainsFunc(listed, func(was v1alpha1.PersistentDisk) bool { return was.ID == d.ID })
		wait = wait || in == (d.Parted == plan.PartedDeleted) // to be left out, or to be listed
	}
	return detachStep{AwaitStatus: wait}
}
