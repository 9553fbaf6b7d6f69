package world

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// storage is what happens in lives with persistent disks only.
var storage = []kind{
	{"a user changes the retention", 2, false, func(w *world, a, b int) {
		w.edit(func(s *v1alpha1.VmGroupSpec) {
			for i := range s.Disks {
				s.Disks[i].Retention = retentionOf(a + i*b)
			}
		})
	}},
	{"a user lets a disk grow", 1, false, func(w *world, a, _ int) {
		w.edit(func(s *v1alpha1.VmGroupSpec) { s.Disks[a%len(s.Disks)].SizeGiB++ })
	}},
	{"a user adds a disk", 1, false, func(w *world, a, _ int) {
		w.edit(func(s *v1alpha1.VmGroupSpec) {
			if len(s.Disks) < 3 {
				s.Disks = append(s.Disks, v1alpha1.Disk{Name: "more" + string(rune('0'+len(s.Disks))), SizeGiB: 1, Persistent: true, Retention: retentionOf(a)})
			}
		})
	}},
	{"a user gives up a disk", 1, true, func(w *world, a, _ int) {
		if w.kube.group != nil {
			w.giveUp(one(detachedIn(w.kube.group), a).ID)
		}
	}},
	{"an operator detaches a disk", 2, true, func(w *world, a, b int) {
		m := one(w.some(func(m *machine) bool { return len(m.attached) > 0 && !m.snapshot && visible(m) }), a)
		if m != nil {
			d := one(m.attached, b)
			m.attached, m.taken = slices.DeleteFunc(slices.Clone(m.attached), func(x *disk) bool { return x == d }), append(m.taken, d)
			m.reconfigured()
		}
	}},
	{"an operator attaches a disk to another VM", 2, true, func(w *world, a, b int) {
		d := one(w.vc.known(func(d *disk) bool { return len(w.vc.users(d)) == 0 && !d.lost }), a)
		if m := w.vc.vms[0]; d != nil && m.foreign && !m.gone {
			m.attached = append(slices.Clone(m.attached), d)
			w.vc.power(m, b%2 == 0 && !w.vc.locked(m))
		}
	}},
	{"an operator's VM gives its disks back", 3, true, func(w *world, _, _ int) { w.returnDisks() }},
	{"a backup opens a disk", 2, true, func(w *world, a, _ int) {
		if d := one(w.vc.known(func(d *disk) bool { return len(w.vc.users(d)) == 0 }), a); d != nil {
			d.open = true
		}
	}},
	{"a disk is not found", 2, true, func(w *world, a, _ int) {
		if d := one(w.vc.known(w.isDiskKnownToAll), a); d != nil {
			d.lost = true
		}
	}},
	{"the datastore cannot be read", 1, true, func(w *world, _, _ int) { w.vc.storageOut = true }},
	{"backups end, and all disks are found", 4, true, func(w *world, _, _ int) { w.storageIsBack() }},
	{"a snapshot is made", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(visible), a); m != nil {
			m.snapshot = true
			m.reconfigured()
		}
	}},
	{"the snapshots are removed", 2, true, func(w *world, _, _ int) { w.vc.consolidate() }},
}

func retentionOf(n int) v1alpha1.DiskRetention {
	both := []v1alpha1.Retention{v1alpha1.RetentionRetain, v1alpha1.RetentionDelete}
	return v1alpha1.DiskRetention{WhenScaled: both[n%2], WhenDeleted: both[n/2%2]}
}

// known returns the disks that exist and satisfy a condition.
func (v *vcenter) known(holds func(*disk) bool) (all []*disk) {
	for _, d := range v.disks {
		if !d.gone && holds(d) {
			all = append(all, d)
		}
	}
	return all
}

func detachedIn(g *v1alpha1.VmGroup) []v1alpha1.PersistentDisk {
	return slices.DeleteFunc(slices.Clone(g.Status.Disks), func(d v1alpha1.PersistentDisk) bool { return d.State != v1alpha1.DiskDetached })
}

// giveUp lists a disk in the annotation with which a user gives disks up.
func (w *world) giveUp(id string) {
	k := &w.kube
	if id == "" || k.group == nil || k.deleting() || slices.Contains(k.givenUp, id) {
		return
	}
	k.givenUp = append(k.givenUp, id)
	g := *k.group
	g.Annotations = w.annotations(&g)
	k.store(&g)
}

// isDiskKnownToAll reports whether each replica, and each parent that Metacontroller may still send, knows a disk. If a disk is lost that one
// of them doesn't know, the replica can't tell it from a disk that never existed.
func (w *world) isDiskKnownToAll(d *disk) bool {
	knows := func(g *v1alpha1.VmGroup) bool {
		return g == nil || g.UID != d.owner.uid || slices.ContainsFunc(g.Status.Disks, func(x v1alpha1.PersistentDisk) bool { return x.ID == d.id })
	}
	return w.kube.group != nil && !slices.ContainsFunc(w.kube.versions, func(g *v1alpha1.VmGroup) bool { return !knows(g) }) &&
		!slices.ContainsFunc(w.replicas, func(r *replica) bool {
			return !knows(r.last) || slices.ContainsFunc(r.waiting, func(c waitingCall) bool { return !knows(c.call.Group) })
		})
}

func (w *world) returnDisks() {
	for _, m := range w.vc.vms {
		if m.foreign && len(m.attached) > 0 {
			m.attached = nil
			w.vc.power(m, false)
		}
	}
}

func (w *world) storageIsBack() {
	w.vc.storageOut = false
	for _, d := range w.vc.disks {
		d.lost, d.open = false, false
	}
}

func (v *vcenter) consolidate() {
	for _, m := range v.vms {
		if m.snapshot {
			m.snapshot = false
			m.reconfigured()
		}
	}
}

// tendDisks does what the status messages about disks ask operators to do.
func (w *world) tendDisks() {
	if !w.set.disks {
		return
	}
	w.returnDisks()
	w.storageIsBack()
	w.vc.consolidate()
	w.attachAgain()
	w.deleteCopies()
	w.detachFromDuplicates()
}

// giveUpForgotten gives up the deleted disks of VMs that an admin destroyed before a status without these disks was stored: no replica can
// tell such a disk from a lost one, so the status asks the user (DiskMissing).
func (w *world) giveUpForgotten() {
	for _, d := range w.stale() {
		if !slices.ContainsFunc(w.vc.vms, func(m *machine) bool {
			return !m.gone && !m.stray && slices.ContainsFunc(plan.Persistent(m.Disks), func(has plan.MemberDisk) bool { return has.ID == d.id })
		}) {
			w.giveUp(d.id)
		}
	}
}

// stale returns the disks that a replica has deleted but that the status still lists.
func (w *world) stale() (all []*disk) {
	if w.kube.group == nil {
		return nil
	}
	for _, listed := range w.kube.group.Status.Disks {
		if d := w.vc.disk(listed.ID); d != nil && d.by != nil {
			all = append(all, d)
		}
	}
	return all
}

// attachAgain attaches disks that operators detached from members again (DiskMissing).
func (w *world) attachAgain() {
	for _, m := range w.vc.vms {
		for _, d := range m.taken {
			if !m.gone && !m.Marked && !d.gone && len(w.vc.users(d)) == 0 && slices.ContainsFunc(plan.Persistent(m.Disks), func(has plan.MemberDisk) bool { return has.ID == d.id }) {
				m.attached = append(slices.Clone(m.attached), d)
				m.reconfigured()
			}
		}
	}
}

// detachFromDuplicates detaches disks from quarantined duplicates while the members of the same ordinals have no disks (DiskInUse).
func (w *world) detachFromDuplicates() {
	for _, q := range w.vc.vms {
		if q.gone || q.Quarantined.IsZero() || q.MarkReason != plan.MarkReasonDuplicate || q.Power == plan.PoweredOn || len(q.attached) == 0 {
			continue
		}
		if slices.ContainsFunc(w.vc.vms, func(m *machine) bool {
			return m.member(q.uid) && m.Ordinal == q.Ordinal && !m.Marked && len(m.attached) == 0
		}) {
			q.attached = nil
			q.reconfigured()
		}
	}
}

// deleteCopies deletes all disks of an owner but one, if the status lists none of them (DuplicateDisk).
func (w *world) deleteCopies() {
	listed := func(d *disk) bool {
		return len(w.vc.users(d)) > 0 || w.kube.group != nil && slices.ContainsFunc(w.kube.group.Status.Disks, func(x v1alpha1.PersistentDisk) bool { return x.ID == d.id })
	}
	for i, d := range w.vc.disks {
		for _, x := range w.vc.disks[:i] {
			switch {
			case d.owner != x.owner || d.gone || x.gone || !d.bound || !x.bound || listed(d) || listed(x):
			case d == w.vc.data[d.owner]:
				x.gone = true
			default:
				d.gone = true
			}
		}
	}
}
