package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A persistent disk belongs to an ordinal, and the member's VM, of which the name is the lock, to whoever has it. So such a group makes no
// extra members, and its ordinals are 0 … n-1: an extra one would have empty disks. A member that is replaced goes first, and its disks
// stay; the next one gets them before it runs, as a part of its preparation:
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

// dense reports whether the ordinals are 0 … n-1.
func (v *view) dense() bool { return v.Group.Spec.HasPersistentDisks() }

// missingOrdinals are those that have no member, and get none.
func (v *view) missingOrdinals() (all []int32) {
	for n := range int32(v.want) {
		if !v.taken(n) {
			all = append(all, n)
		}
	}
	return all
}

// tooMany are the members beyond the last ordinal of a dense group that are not replaced anyway.
func (v *view) tooMany() (n int) {
	for i := range v.members {
		n += int(oneIf(v.excess(&v.members[i]) && v.members[i].retire == ""))
	}
	return n
}

// excess reports whether a member may be one too many.
func (v *view) excess(m *member) bool { return !v.dense() || int(m.Ordinal) >= v.want }

// diskStatuses lists the persistent disks.
func (v *view) diskStatuses() []v1alpha1.PersistentDisk {
	return plan.DiskStatuses(v.Group, v.State.VMs)
}

// heldDisks are those that the member with that ordinal is to get.
func (v *view) heldDisks(ordinal int32) (held []v1alpha1.PersistentDisk) {
	if !v.dense() {
		return nil
	}
	for _, d := range v.diskStatuses() {
		if d.Ordinal == ordinal && d.State == v1alpha1.DiskDetached {
			held = append(held, d)
		}
	}
	return held
}

// lacksData reports whether a member must get a persistent disk before it is powered on: it never had it, or it was deleted as the member
// was to go (DeleteDisks), and the member stays after all. One that was made before the group had such disks runs without until it is
// replaced. (Found by test/world, seeds 1213 and 2651: members ran without their disks.)
func (v *view) lacksData(m *member) bool {
	return m.Former.Entry == "" && (m.outdated == "" || plan.PreparationIn(m.Prepared).Disks) && plan.LacksPersistent(&v.Group.Spec, m.VM.Disks)
}

// partDisks plans what must be done about a member's persistent disks before its VM is destroyed, and reports whether something must.
func (v *view) partDisks(m *member, on ground, reason string) (first, goesOn bool) {
	has, listed := plan.Persistent(m.VM.Disks), false
	var giveUp []string
	for _, d := range has {
		if v.retention(m, d.Name, on) == v1alpha1.RetentionDelete {
			giveUp = append(giveUp, d.ID)
		}
	}
	otherwise := func(was v1alpha1.PersistentDisk) bool { return was.MoRef != m.MoRef && slices.Contains(giveUp, was.ID) }
	if !v.Finalizing && slices.ContainsFunc(v.Group.Status.Disks, otherwise) {
		return v.awaitStatus(), true
	}
	if len(giveUp) > 0 {
		return true, v.act(plan.Action{Op: plan.DeleteDisks, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, GiveUp: giveUp,
			Marked: on == chosen, Reason: reason + ": its disks are deleted (retention)"})
	}
	if v.Finalizing { // nobody will ask
		return false, true
	}
	for _, was := range v.Group.Status.Disks {
		listed = listed || was.MoRef == m.MoRef && !slices.ContainsFunc(has, func(d plan.MemberDisk) bool { return d.ID == was.ID })
	}
	for _, d := range has {
		in := slices.ContainsFunc(v.Group.Status.Disks, func(was v1alpha1.PersistentDisk) bool { return was.ID == d.ID })
		listed = listed || in == (d.Parted == plan.PartedDeleted) // to be left out, or to be listed
	}
	return listed && v.awaitStatus(), true
}

// awaitStatus waits for the next status to be stored.
func (v *view) awaitStatus() bool {
	v.waitDisks = true
	v.wakeAt(v.Now.Add(resyncBusy))
	return true
}

// retention is what becomes of a member's disk as its VM is removed.
func (v *view) retention(m *member, disk string, on ground) v1alpha1.Retention {
	i := slices.IndexFunc(v.Group.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == disk })
	switch {
	case i < 0:
	case on == deleted:
		return v.Group.Spec.Disks[i].Retention.WhenDeleted
	case on == chosen && m.retire == "" && int(m.Ordinal) >= v.want:
		return v.Group.Spec.Disks[i].Retention.WhenScaled
	}
	return v1alpha1.RetentionRetain
}
