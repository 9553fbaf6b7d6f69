package planner

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A persistent disk belongs to an ordinal, and one VM has it at a time. An extra member would have empty disks, so a group with such disks creates
// none, and its ordinals are 0 … n-1. A member that is replaced is removed before its successor is created; its disks are detached and kept
// (detach.go), and the successor gets them while it is prepared, before it runs.

// missingOrdinals are the ordinals below replicas that have no member, and are not getting one.
func (d *decision) missingOrdinals() (all []int32) {
	for n := range int32(d.facts.want) {
		if !d.taken(n) {
			all = append(all, n)
		}
	}
	return all
}

// tooMany counts the members of a group with persistent disks that have ordinals from replicas on, without those nominated to be replaced.
func (d *decision) tooMany() (n int) {
	for i := range d.sets.members {
		n += int(oneIf(d.facts.excess(&d.sets.members[i]) && d.sets.members[i].nominated == ""))
	}
	return n
}

// excess reports whether a member may be one too many.
func (f *facts) excess(m *member) bool { return !f.hasPersistentDisks() || int(m.Ordinal) >= f.want }

// tooManyDisks returns a fault if the status could not list all persistent disks that the group would have: one that it does not list
// would be forgotten with its VM.
func (f *facts) tooManyDisks() *plan.Block {
	wanted := slices.DeleteFunc(slices.Clone(f.Group.Spec.Disks), func(d v1alpha1.Disk) bool { return !d.Persistent })
	if len(f.Group.Status.Disks)+(len(f.State.VMs)+f.want)*len(wanted) <= v1alpha1.MaxPersistentDisks {
		return nil
	}
	all := plan.DiskStatuses(f.Group, f.State.VMs)
	has := map[v1alpha1.PersistentDisk]bool{}
	for _, d := range all {
		has[v1alpha1.PersistentDisk{Name: d.Name, Ordinal: d.Ordinal}] = true
	}
	n := len(all)
	for ordinal := range int32(f.want) {
		for _, d := range wanted {
			if !has[v1alpha1.PersistentDisk{Name: d.Name, Ordinal: ordinal}] {
				n++
			}
		}
	}
	if n <= v1alpha1.MaxPersistentDisks {
		return nil
	}
	return &plan.Block{Fault: needsOperator(plan.ReasonTooManyDisks), Disks: n}
}

// lacksData reports whether a member must get a persistent disk before it is powered on: it never had the disk, or DeleteDisks deleted it and then
// the member was not removed after all. A member from before spec.disks had persistent disks runs without them until it is replaced. (Found by
// test/world, seeds 1213 and 2651: members ran without their disks.)
func (f *facts) lacksData(m *member) bool {
	return m.Former.Entry == "" && (m.outdated == "" || plan.PreparationIn(m.Prepared).Disks) && plan.LacksPersistent(&f.Group.Spec, m.VM.Disks)
}

// listedWithin is when to look again whether the status lists a member's disks.
const listedWithin = 2 * time.Second

// stillHas returns the persistent disks in a VM's stamp, without those that a member has by now: an operator detached them from a VM in
// quarantine, as DiskInUse asks, and its stamp doesn't show it. (test/world, seed 63059949: a deletion waited for such a disk, which the member
// had, and the member for that.)
func (s *sets) stillHas(m *member) []plan.MemberDisk {
	has := plan.Persistent(m.VM.Disks)
	if m.Quarantined.IsZero() {
		return has
	}
	return slices.DeleteFunc(slices.Clone(has), func(d plan.MemberDisk) bool {
		return slices.ContainsFunc(s.members, func(x member) bool {
			return slices.ContainsFunc(plan.Persistent(x.VM.Disks), func(its plan.MemberDisk) bool { return its.ID == d.ID && its.Parted == "" })
		})
	})
}

// partDisks plans what must be done about a member's persistent disks before its VM is destroyed, and reports whether something must.
func (s *steps) partDisks(m *member, on removal, reason string) (first, unblocked bool) {
	step := beforeDetach(s.facts.disksListed[m.Ordinal], m.MoRef, s.sets.stillHas(m), func(disk string) v1alpha1.Retention { return s.decision.retention(m, disk, on) }, s.facts.Finalizing)
	switch {
	case step.AwaitStatus:
		s.waitDisks = true
		s.wake.note(s.facts.Now.Add(listedWithin))
	case len(step.Delete) > 0:
		return true, s.act(plan.Action{Op: plan.DeleteDisks, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: plan.DeleteDisksArgs{IDs: step.Delete},
			Marked: on == chosen, Reason: reason + ": its disks are deleted (retention)"})
	}
	return step.AwaitStatus, true
}

// retention is what becomes of a member's disk as its VM is removed.
func (d *decision) retention(m *member, disk string, on removal) v1alpha1.Retention {
	i := slices.IndexFunc(d.facts.Group.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == disk })
	switch {
	case i < 0:
	case on == deleted:
		return d.facts.Group.Spec.Disks[i].Retention.WhenDeleted
	case on == chosen && m.nominated == "" && int(m.Ordinal) >= d.facts.want:
		return d.facts.Group.Spec.Disks[i].Retention.WhenScaled
	}
	return v1alpha1.RetentionRetain
}
