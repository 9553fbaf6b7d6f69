package world

import (
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// What must always be true of persistent disks: invariant 12 of docs/design.md.

// write notes that a guest boots and writes to its disks: from then on these disks have the data of their ordinal.
func (v *vcenter) write(m *machine) {
	for _, d := range m.attached {
		if v.data == nil {
			v.data = map[owner]*disk{}
		}
		if d.owner.uid == m.uid && d.owner.ordinal == m.Ordinal { // the invariant doesn't cover a guest that writes to a disk of another ordinal
			d.log = append(d.log, m.MoRef)
			v.data[d.owner] = d
		}
	}
}

// checkAttach checks a disk before it is attached. VMs that an operator renamed or moved are excepted, because their names no longer keep
// other VMs from getting the same ordinal.
func (s *step) checkAttach(m *machine, d *disk) {
	if of := (owner{m.uid, m.Ordinal, d.owner.name}); d.owner != of {
		s.violated("12: %s attaches the disk of %s (%s)", s, d.owner, d.id)
	}
	for _, x := range s.vc.vms {
		if x != m && x.claims(m.uid) && slices.Contains(x.attached, d) && !x.tampered && !m.tampered {
			s.violated("12: %s attaches %s (%s), which %s has", s, d.id, d.owner, x.MoRef)
		}
	}
}

// checkPowerOn checks the disks of a member when its power-on reaches vCenter. Data on a disk that was never bound doesn't count: a guest
// can only write to such a disk if an operator powers the VM on before the server does (docs/design.md, known limits).
func (s *step) checkPowerOn() {
	m := s.vc.find(s.a.MoRef)
	for i := range s.set.spec.Disks {
		of := owner{m.uid, m.Ordinal, s.set.spec.Disks[i].Name}
		at := slices.IndexFunc(m.attached, func(d *disk) bool { return d.owner == of })
		if at < 0 {
			s.violated("12: %s begins, and the member does not have its disk %s", s, of.name)
			continue
		}
		d := m.attached[at]
		if !d.bound && s.set.defect != startsWithout {
			s.violated("12: %s begins, and nothing says that the disk %s may contain data", s, d.id)
		}
		if before := s.vc.data[of]; before != nil && before != d && !before.gone && before.bound && !slices.Contains(s.kube.givenUp, before.id) {
			s.violated("12: %s begins with the disk %s, and what guests wrote before (%q) is on %s", s, d.id, before.log, before.id)
		}
	}
}

// checkDelete checks a disk before it is deleted: no VM may have it, and the retention in the replica's spec must allow the deletion.
func (s *step) checkDelete(d *disk) {
	for _, x := range s.vc.vms {
		if (!x.gone || x.away()) && slices.Contains(x.attached, d) {
			s.violated("12: %s deletes %s (%s), which %s has", s, d.id, d.owner, x.MoRef)
		}
	}
	if !s.deletes {
		s.violated("12: %s deletes %s (%s), which the spec retains", s, d.id, d.owner)
	}
}

// mayDelete reports whether the retention in the replica's spec allows a step to delete disks.
func (s *step) mayDelete() bool {
	k := &s.kube
	if s.a.Op != plan.DeleteDisks || s.ref.UID != k.uid() {
		return s.a.Op == plan.DeleteDisks && slices.Contains(k.finalized, s.ref.UID)
	}
	spec := k.specs[max(1, s.by.spec[s.ref.UID])-1]
	given := plan.DisksIn(s.vc.find(s.a.MoRef).Disks)
	return !slices.ContainsFunc(plan.ArgsOf[plan.DeleteDisksArgs](s.a.Args).IDs, func(id string) bool {
		at := slices.IndexFunc(given, func(has plan.MemberDisk) bool { return has.ID == id })
		return at < 0 || !slices.ContainsFunc(spec.Disks, func(d v1alpha1.Disk) bool {
			return d.Name == given[at].Name && ((k.finalizing || s.ends) && d.Retention.WhenDeleted == v1alpha1.RetentionDelete ||
				s.a.Ordinal >= *spec.Replicas && d.Retention.WhenScaled == v1alpha1.RetentionDelete)
		})
	})
}

// lookAtDisks checks the disks after an event.
func (w *world) lookAtDisks() {
	for _, d := range w.vc.disks {
		var in []*machine
		for _, m := range w.vc.vms {
			if (!m.gone || m.away()) && slices.Contains(m.attached, d) {
				in = append(in, m)
			}
		}
		for i, m := range in {
			if d.gone {
				w.violated("12: %s has %s (%s), which was deleted", m.MoRef, d.id, d.owner)
			}
			if i > 0 && m.Power == plan.PoweredOn && in[0].Power == plan.PoweredOn {
				w.violated("12: %s (%s) is in %s and %s, and both are on", d.id, d.owner, in[0].MoRef, m.MoRef)
			}
		}
	}
}

// disksOff returns how the disks of a running member differ from the spec; empty if they don't.
func (w *world) disksOff(m *machine) string {
	g := w.kube.group
	if differs := plan.DisksToChange(&g.Spec, m.Disks); differs != "" {
		return m.MoRef + " " + differs
	}
	for _, has := range plan.Persistent(m.Disks) {
		if !m.has(has.ID) {
			return fmt.Sprintf("%s does not have %s", m.MoRef, has.ID)
		}
		if !slices.ContainsFunc(g.Status.Disks, func(d v1alpha1.PersistentDisk) bool {
			return d.ID == has.ID && d.State == v1alpha1.DiskAttached && d.MoRef == m.MoRef
		}) {
			return fmt.Sprintf("the status does not list %s of %s", has.ID, m.MoRef)
		}
	}
	return ""
}
