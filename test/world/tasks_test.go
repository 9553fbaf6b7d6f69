package world

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// overtakes reports whether a clone must not end yet, because its folder is being removed. The new VM would leave the inventory with the
// folder, and no call could prevent that; in a real vCenter, a clone takes far longer than the removal.
func (s *step) overtakes() bool { return s.a.Op == plan.Clone && s.removesFolder() }

// changesPower reports whether a task of this kind is running for a VM.
func (w *world) changesPower(moRef string, op plan.Op) bool {
	return slices.ContainsFunc(w.steps, func(s *step) bool { return s.phase == running && s.a.Op == op && s.a.MoRef == moRef })
}

// effect applies the effect of a task to vCenter.
func (s *step) effect() error {
	vc, a := s.vc, s.a
	if s.call.what != "" {
		return s.diskDone()
	}
	switch a.Op {
	case plan.CreateFolder:
		if vc.folder == "" {
			vc.folder, vc.folders = vc.ref("group"), vc.folders+1
		}
		return nil
	case plan.CreateQuarantine:
		if a.Folder() != vc.folder {
			return objectGone
		}
		if vc.quarantine == "" {
			vc.quarantine, vc.folders = vc.ref("group"), vc.folders+1
		}
		return nil
	case plan.Clone:
		return s.cloned()
	case plan.RemoveFolder:
		if a.MoRef == vc.folder {
			s.folderRemoved()
		}
		return nil
	case plan.ConfirmGone:
		return nil
	case plan.SetRules:
		return s.rulesSet()
	}
	m := vc.find(a.MoRef)
	switch {
	case m == nil || m.gone:
		if a.Op == plan.Destroy {
			return nil
		}
		return objectGone
	case m.hidden:
		return noPermission
	case m.IsTemplate:
		return wrongPower // as for any step that a template doesn't take
	case m.uid != s.ref.UID:
		s.violated("2: %s acts on a VM that is not the group's", s)
	}
	return s.changes(m)
}

// changes applies the effect of a task to one VM.
func (s *step) changes(m *machine) error {
	vc, a := s.vc, s.a
	if s.asks {
		if m.ChangeVersion != s.guard {
			return untried(changed)
		}
		s.unasked, s.asked = m.VM, plan.Moment{At: seconds(time.Now().Add(time.Second)), Boot: s.boot}
		m.Shutdown, m.Generation = s.asked, max(m.Generation, a.Generation)
		m.reconfigured()
		return nil
	}
	switch a.Op {
	case plan.Mark, plan.Unmark, plan.Quarantine, plan.Reconfigure, plan.Prepare, plan.Restamp:
		if m.ChangeVersion != s.guard {
			return changed
		}
		if on := m.Power == plan.PoweredOn; a.Op == plan.Reconfigure && on != plan.ArgsOf[plan.ResizeArgs](a.Args).Hot {
			return wrongPower
		}
		vc.apply(m, a)
		m.noteTags(&a)
		m.reconfigured()
	case plan.PowerOn:
		if m.Power != plan.PoweredOn {
			if vc.locked(m) {
				return diskInUse
			}
			if vc.keptOff(m) {
				if !s.orphan { // otherwise no process notes it
					m.outOfRule = true
					m.reconfigured()
				}
				return noHostApart
			}
			if m.parted && m.member(s.kube.uid()) && !s.deleted(m.uid) {
				s.violated("12: %s turns on a guest whose disks a step has detached", s)
			}
			vc.power(m, true)
		}
	case plan.PowerOff:
		if m.Power == plan.PoweredOn {
			vc.power(m, false)
		}
	case plan.Reset:
		if m.Power != plan.PoweredOn {
			return wrongPower
		}
		m.guestStops()
		m.changed()
	case plan.Rename, plan.Move:
		if a.Op == plan.Rename && m.ChangeVersion != s.guard {
			return changed
		}
		folder, name := m.Folder, plan.ArgsOf[plan.RenameArgs](a.Args).Name
		if a.Op == plan.Move {
			if folder, name = a.Folder(), m.Name; !vc.standing(folder) {
				return objectGone
			}
		}
		if holder := vc.named(folder, name); holder != nil && holder != m {
			if holder.uid == s.ref.UID || holder.hidden {
				return nameHeld
			}
			return nameConflict
		}
		vc.apply(m, a)
		m.reconfigured()
	case plan.Destroy:
		if m.Power == plan.PoweredOn {
			return wrongPower
		}
		if s.set.defect == deletesDisks {
			for _, d := range m.attached {
				s.checkDelete(d)
				d.gone = true
			}
		}
		vc.removes(m)
	default:
		panic("the model doesn't know the step " + string(a.Op))
	}
	return nil
}

func (s *step) cloned() error {
	vc, a := s.vc, s.a
	if a.Folder() != vc.folder {
		return objectGone
	}
	if holder := vc.named(a.Folder(), a.Key); holder != nil {
		s.holder = holder.MoRef
		return nil // the replica then checks which VM has the name
	}
	vc.listDisks()
	m := vc.add(s.ref.UID, a)
	s.made = m.MoRef
	s.arrives(m)
	return nil
}

func (s *step) folderRemoved() {
	vc := s.vc
	for _, m := range vc.vms {
		if !m.gone && (m.Folder == vc.folder || m.Folder == vc.quarantine) {
			s.violated("4: %s removes %s (%s) from the inventory with its folder", s, m.Name, m.MoRef)
		}
	}
	vc.folder, vc.quarantine, vc.folders = "", "", vc.folders+1
}
