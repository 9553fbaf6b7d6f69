package world

import (
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The steps for persistent disks, task by task, as package vsphere makes them.

// diskCall is one task of a step that concerns disks. Such a step is several tasks: the replica may be killed between any two.
type diskCall struct {
	what  string // "create", "bind", "attach", "detach", "delete" or "restamp"; empty for none
	of    *disk
	owner owner
	gib   int32
}

// startDisks makes the calls before the next task of a step for disks, and chooses that task; over reports that no task is left.
func (s *step) startDisks() (over bool, err error) {
	m := s.vc.find(s.a.MoRef)
	if s.attached {
		i := slices.IndexFunc(s.got, func(d *disk) bool { return !d.bound })
		if i < 0 {
			return true, nil
		}
		s.call = diskCall{what: "bind", of: s.got[i]}
		return false, nil
	}
	if !s.goesOn {
		if err = s.look(); err == nil && m.ChangeVersion != s.guard {
			err = changed
		}
		if err != nil {
			return false, err
		}
		s.given = m.Disks
	}
	if s.a.Op == plan.DeleteDisks {
		return s.startDelete(m)
	}
	given, err := identified(s.given, m)
	if err != nil {
		return false, err
	}
	if err := s.grow(given, m); err != nil {
		return false, err
	}
	s.got = s.got[:0]
	for i := range s.a.Details().Spec.Disks {
		want := &s.a.Details().Spec.Disks[i]
		if slices.ContainsFunc(given, func(has plan.MemberDisk) bool { return has.Name == want.Name }) {
			continue
		}
		d, err := s.obtain(m, want)
		if d == nil || err != nil {
			return false, err // another task comes before the attach
		}
		s.got, given = append(s.got, d), append(given, d.record(want))
	}
	s.given, s.call = plan.DiskText(given), diskCall{what: "attach"}
	return false, nil
}

// identified returns the disks of a stamp with the uuids of the disks attached to the VM.
func identified(text string, m *machine) ([]plan.MemberDisk, error) {
	given := slices.DeleteFunc(plan.DisksIn(text), func(d plan.MemberDisk) bool { return d.Parted != "" && !m.has(d.ID) })
	for i := range given {
		if given[i].UUID == "" && !m.has(given[i].ID) {
			return nil, diskMissing
		}
		given[i].UUID, given[i].Parted = plan.NoUUID, ""
	}
	return given, nil
}

// has reports whether a disk is attached.
func (m *machine) has(id string) bool {
	return slices.ContainsFunc(m.attached, func(d *disk) bool { return d.id == id })
}

// grow extends a member's disks to the sizes of the spec.
func (s *step) grow(given []plan.MemberDisk, m *machine) error {
	for i := range given {
		for _, want := range s.a.Details().Spec.Disks {
			if want.Name != given[i].Name || want.SizeGiB <= given[i].SizeGiB {
				continue
			}
			d, err := s.vc.readDisk(given[i].ID)
			switch {
			case err != nil:
				return err
			case m.snapshot:
				return extendRefused
			}
			d.gib, given[i].SizeGiB = max(d.gib, want.SizeGiB), want.SizeGiB
		}
	}
	return nil
}

// obtain returns the owner's disk, which no other VM may have; nil if another task must run first. The disk is bound after it is attached; if
// the VM runs, before.
func (s *step) obtain(m *machine, want *v1alpha1.Disk) (*disk, error) {
	of := owner{s.ref.UID, s.a.Ordinal, want.Name}
	if d := s.ready[of.name]; d != nil {
		return d, nil
	}
	if s.ready == nil {
		s.ready = map[string]*disk{}
	}
	d, err := s.madeDisk, error(nil)
	if s.madeDisk = nil; d == nil {
		if d, err = s.findDisk(of); err != nil {
			return nil, err
		}
	}
	if d == nil {
		s.call = diskCall{what: "create", owner: of, gib: want.SizeGiB}
		return nil, nil
	}
	if slices.ContainsFunc(s.vc.users(d), func(x *machine) bool { return x != m }) {
		if s.set.defect != attachesUsed {
			return nil, diskInUse
		}
		s.violated("12: %s takes %s (%s), which another VM has", s, d.id, d.owner)
	}
	if !d.bound && m.Power == plan.PoweredOn {
		s.call, s.ready[of.name] = diskCall{what: "bind", of: d}, d
		return nil, nil
	}
	d.gib, s.ready[of.name] = max(d.gib, want.SizeGiB), d
	return d, nil
}

// findDisk returns the disk of an owner; nil if the owner never had one.
func (s *step) findDisk(of owner) (*disk, error) {
	var held []string
	for _, h := range s.a.Details().KnownDisks {
		if h.Name == of.name {
			held = append(held, h.ID)
		}
	}
	for _, id := range held {
		d, err := s.vc.readDisk(id)
		switch {
		case err == nil && d.owner != of:
			return nil, diskInUse
		case err != diskMissing:
			return d, err
		}
	}
	for _, parted := range plan.Persistent(s.given) {
		if d := s.vc.disk(parted.ID); parted.Name == of.name && parted.Parted == plan.PartedDeleted && d != nil && d.owner == of {
			if d, err := s.vc.readDisk(parted.ID); err != diskMissing {
				return d, err
			}
		}
	}
	if s.vc.storageOut {
		return nil, storageOut
	}
	var found, bound []*disk
	for _, d := range s.vc.disks {
		if d.gone || d.lost || time.Now().Before(d.shown) || d.owner != of && !(s.set.defect == takesByName && d.owner.name == of.name) {
			continue
		}
		found = append(found, d)
		if d.bound && (len(held) == 0 || slices.Contains(held, d.id)) {
			bound = append(bound, d)
		}
	}
	byID := func(a, b *disk) int { return strings.Compare(a.id, b.id) }
	switch {
	case s.set.defect == makesAnother:
		return nil, nil
	case len(bound) > 1 && s.set.defect != takesByName:
		return nil, duplicateDisk
	case len(bound) > 0:
		return bound[0], nil
	case len(held) > 0:
		return nil, diskMissing
	case len(found) > 0:
		return slices.MinFunc(found, byID), nil
	}
	return nil, nil
}

// startDelete is startDisks for DeleteDisks: the tasks detach the disks, delete them, and remove them from the stamp.
func (s *step) startDelete(m *machine) (over bool, err error) {
	if !s.goesOn && m.Power != plan.PoweredOff {
		return false, wrongPower
	}
	known := plan.PartDisks(s.given, plan.PartedDeleted, plan.ArgsOf[plan.DeleteDisksArgs](s.a.Args).IDs) == s.given
	if (!known || slices.ContainsFunc(plan.ArgsOf[plan.DeleteDisksArgs](s.a.Args).IDs, m.has)) && s.call.what == "" {
		return false, s.detaches(m)
	}
	for _, has := range plan.DisksIn(s.given) {
		if !slices.Contains(plan.ArgsOf[plan.DeleteDisksArgs](s.a.Args).IDs, has.ID) {
			continue
		}
		d, err := s.vc.readDisk(has.ID)
		switch {
		case err == diskMissing:
			continue
		case err != nil:
			return false, err
		case d.owner.uid != s.ref.UID || d.owner.ordinal != s.a.Ordinal || len(s.vc.users(d)) > 0:
			return false, diskInUse
		}
		s.call = diskCall{what: "delete", of: d}
		return false, nil
	}
	s.by.view.read(s.a.MoRef)
	if _, err := s.by.view.own(s.ref, s.a); err != nil {
		return false, err
	}
	s.call, s.guard = diskCall{what: "restamp"}, m.ChangeVersion
	return false, nil
}

// detaches begins to detach disks. It fails if the VM is on or has a snapshot.
func (s *step) detaches(m *machine) error {
	switch {
	case m.Power != plan.PoweredOff:
		return wrongPower
	case m.snapshot:
		return diskInSnapshot
	}
	s.call, s.guard = diskCall{what: "detach"}, m.ChangeVersion
	return nil
}

// hasDisks checks that a member has its disks before it is powered on, and binds them.
func (s *step) hasDisks() error {
	m := s.vc.find(s.a.MoRef)
	if len(m.attached) > 0 && m.Marked {
		return changed
	}
	for _, has := range plan.Persistent(s.by.view.vms[s.a.MoRef].vm.Disks) {
		switch d := s.vc.disk(has.ID); {
		case s.set.defect == startsWithout:
		case !m.has(has.ID):
			return diskMissing
		case s.vc.storageOut:
			return storageOut
		case d.lost:
			return diskMissing
		case len(s.vc.users(d)) > 1:
			return diskInUse
		default:
			d.bound = true
		}
	}
	return nil
}

// diskDone applies the effect of a disk task to vCenter.
func (s *step) diskDone() error {
	vc, a, d := s.vc, s.a, s.call.of
	if d != nil && (d.gone || d.lost) {
		return diskMissing
	}
	switch s.call.what {
	case "create":
		if vc.storageOut {
			return storageOut
		}
		s.madeDisk = vc.makes(s.call.owner, s.call.gib)
		return nil
	case "bind":
		d.bound = true
		return nil
	case "delete":
		if len(vc.users(d)) > 0 {
			return diskInUse
		}
		s.checkDelete(d)
		d.gone, d.by = true, s.by
		return nil
	}
	m := vc.find(a.MoRef)
	switch {
	case m == nil || m.gone:
		return objectGone
	case m.hidden:
		return noPermission
	case m.ChangeVersion != s.guard:
		return changed
	}
	if m.uid != s.ref.UID {
		s.violated("2: %s acts on a VM that is not the group's", s)
	}
	switch s.call.what {
	case "attach":
		return s.attaches(m)
	case "detach":
		if m.snapshot {
			return diskInSnapshot
		}
		m.attached = slices.DeleteFunc(slices.Clone(m.attached), func(d *disk) bool {
			return a.Op == plan.Destroy || slices.Contains(plan.ArgsOf[plan.DeleteDisksArgs](a.Args).IDs, d.id)
		})
		if m.parted = true; a.Op == plan.Destroy {
			m.Disks = plan.PartDisks(m.Disks, plan.PartedKept, nil)
		} else {
			m.Disks = plan.PartDisks(m.Disks, plan.PartedDeleted, plan.ArgsOf[plan.DeleteDisksArgs](a.Args).IDs)
		}
	case "restamp":
		vc.apply(m, a)
	}
	m.reconfigured()
	return nil
}

// attaches ends a SetDisks. vCenter refuses a disk that another VM has.
func (s *step) attaches(m *machine) error {
	for _, d := range s.got {
		s.checkAttach(m, d)
		switch {
		case d.gone || d.lost:
			return diskMissing
		case d.open, slices.ContainsFunc(s.vc.users(d), func(x *machine) bool { return x != m }):
			return diskInUse
		}
	}
	m.attached, m.parted, s.attached = append(slices.Clone(m.attached), s.got...), false, true
	m.Disks, m.Generation = s.given, max(m.Generation, s.a.Generation)
	m.reconfigured()
	return nil
}

// detachesFirst reports whether a step is about to detach disks.
func (s *step) detachesFirst() bool {
	m := s.vc.find(s.a.MoRef)
	return !s.goesOn && m != nil && (s.a.Op == plan.DeleteDisks || s.a.Op == plan.Destroy && len(m.attached) > 0)
}

// startParting begins to detach the disks of a VM before it is destroyed, because Destroy_Task would delete them.
func (s *step) startParting() error {
	if s.set.defect == deletesDisks {
		return nil
	}
	return s.detaches(s.vc.find(s.a.MoRef))
}

// continues reports whether another task follows the one that has ended.
func (s *step) continues() bool {
	if s.attached {
		return slices.ContainsFunc(s.got, func(d *disk) bool { return !d.bound })
	}
	return s.call.what == "create" || s.call.what == "bind" || s.call.what == "detach" || s.call.what == "delete"
}
