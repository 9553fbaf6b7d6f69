package world

import (
	"maps"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// start makes the calls before the task, and starts the task; over reports that the step has nothing left to do. A task that vCenter refuses
// when it starts never runs: if it ran later, the VM could have changed since the checks.
//
// [doc] PowerOffVM_Task: InvalidPowerState "if the power state is not poweredOn"; TaskInProgress "if the virtual machine is busy".
func (s *step) start() (over bool, err error) {
	v, a := s.by.view, s.a
	switch a.Op {
	case plan.CreateFolder:
		over = v.folder != ""
	case plan.CreateQuarantine:
		over = v.quarantine != ""
	case plan.SetRules:
		over = s.startRules()
	case plan.Clone, plan.ConfirmGone, plan.RemoveFolder, plan.Destroy:
	default:
		if !s.goesOn {
			over, err = s.startOwn()
		}
	}
	if over || err != nil {
		v.read("")
		return over, err
	}
	if !s.by.loop.Leased(s.ref.UID, a.Key) { // checked last, because the lease can end during the checks above
		return false, leaseOver
	}
	s.checkLease()
	for _, clone := range []*plan.Action{&a, plan.ArgsOf[plan.MarkArgs](a.Args).Successor} { // a Mark also looks up what its successor's clone needs
		if clone != nil && clone.Op == plan.Clone && clone.Details() != nil && clone.Details().Spec.Template == noTemplate && (a.Op == plan.Clone || s.set.defect != hopeful) {
			return false, untried(noSuchTemplate)
		}
	}
	switch a.Op {
	case plan.SetRules:
		return false, nil
	case plan.ConfirmGone:
		return false, s.noCloneRunning()
	case plan.RemoveFolder:
		return s.startRemoveFolder()
	case plan.Destroy:
		err = s.look()
		if err == objectGone {
			v.read(a.MoRef)
			return true, nil
		}
		if err == nil {
			err = s.leavesEnough()
		}
		if m := s.vc.find(a.MoRef); err == nil && plan.ArgsOf[plan.DestroyArgs](a.Args).NeverOn && (m.Power != plan.PoweredOff || m.wasOn) {
			err = inUse
		}
		if m := s.vc.find(a.MoRef); err == nil && m.Power == plan.PoweredOn {
			err = wrongPower
		}
		if err == nil && a.Marked && slices.ContainsFunc(plan.ArgsOf[plan.DestroyArgs](a.Args).Keeps, func(id string) bool { return !slices.Contains(plan.KeptDisks(s.vc.find(a.MoRef).Disks), id) }) {
			err = changed
		}
		if s.call = (diskCall{}); err == nil && len(s.vc.find(a.MoRef).attached) > 0 {
			err = s.startParting()
		}
	case plan.SetDisks, plan.DeleteDisks:
		return s.startDisks()
	case plan.Prepare:
		m := s.vc.find(a.MoRef)
		if err = s.look(); err == nil && m.ChangeVersion != s.guard {
			err = changed
		}
		if err == nil {
			_, err = identified(m.Disks, m)
		}
	case plan.PowerOn, plan.PowerOff, plan.ShutdownGuest:
		if m := s.vc.find(a.MoRef); a.Standby() && m.Standby && m.ChangeVersion != s.guard && !m.gone {
			err = changed
			break
		}
		if a.Op == plan.PowerOn && v.vms[a.MoRef].vm.Marked { // the replica saw the mark after it planned the power-on
			err = untried(changed)
			break
		}
		if a.Marked {
			err = untried(s.readSinceMark())
		}
		if a.Marked && err == nil {
			err = untried(s.look())
		}
		if err == nil && a.Op == plan.PowerOn {
			err = untried(s.hasDisks())
		}
		if err == nil && a.Op == plan.PowerOff && !s.asks {
			if s.vc.find(a.MoRef).Power != plan.PoweredOn {
				v.read(a.MoRef)
				return true, nil
			}
			if s.changesPower(a.MoRef, plan.PowerOff) {
				err = busy
			}
		}
	case plan.Quarantine, plan.Reset:
		if err = s.look(); err == nil {
			err = s.leavesEnough()
		}
		if m := s.vc.find(a.MoRef); err == nil && m.ChangeVersion != s.guard {
			err = changed
		}
	}
	if err == nil {
		s.stamp()
		if a.Op == plan.PowerOn {
			s.checkPowerOn()
		}
		s.check()
	}
	return false, err
}

// startOwn checks what the replica knows of the step's member.
func (s *step) startOwn() (over bool, err error) {
	a := s.a
	m, err := s.by.view.own(s.ref, a)
	if err != nil {
		return false, err
	}
	s.guard, s.boot = m.ChangeVersion, m.BootTime
	s.asks = a.Op == plan.ShutdownGuest || s.asksFirst(m)
	switch {
	case s.asks && m.Power != plan.PoweredOn:
		return true, nil
	case s.asks && !m.Tools:
		return false, untried(noTools)
	}
	unchanged := a.ChangeVersion == "" || a.ChangeVersion == m.ChangeVersion
	switch a.Op {
	case plan.Rename:
		over = m.Name == plan.ArgsOf[plan.RenameArgs](a.Args).Name
	case plan.Move:
		return m.Folder == a.Folder(), nil
	case plan.Mark:
		over = m.Marked && (plan.ArgsOf[plan.MarkArgs](a.Args).Reason == "" || m.MarkReason == plan.ArgsOf[plan.MarkArgs](a.Args).Reason) && m.Generation >= a.Generation
	case plan.Unmark:
		over = !m.Marked && m.Quarantined.IsZero() && m.Generation >= a.Generation
	case plan.Restamp:
		over = m.Renumbered == ""
	case plan.Quarantine:
		over = !m.Quarantined.IsZero()
	case plan.Prepare:
		over = m.Prepared == a.Details().Prepared && m.Tagged.Asked == a.Details().Asked && (m.Tagged.MoRef == "" || m.Tagged.MoRef == m.MoRef)
	case plan.SetDisks:
	case plan.Reconfigure:
		if on := m.Power == plan.PoweredOn; unchanged && on != plan.ArgsOf[plan.ResizeArgs](a.Args).Hot {
			return false, wrongPower
		}
	case plan.Reset:
		if unchanged && m.Marked {
			return false, changed
		}
	case plan.PowerOn:
		if unchanged || !a.Standby() || !m.Standby {
			return false, nil
		}
	default:
		return false, nil
	}
	if !over && !unchanged {
		err = changed
	}
	return over, err
}

// readSinceMark reads all members again before a step takes down a member that another process has marked, or that is one too many.
func (s *step) readSinceMark() error {
	v := s.by.view
	m := v.vms[s.a.MoRef].vm
	at, known := s.by.marks[m.MoRef]
	if known = known && at.Equal(m.MarkedAt); known && s.a.Leaves == 0 {
		return nil
	}
	planned := v.states(s.ref.UID)
	v.readMembers(s.ref.UID)
	s.by.marks[m.MoRef] = m.MarkedAt
	if !known && !maps.Equal(planned, v.states(s.ref.UID)) {
		return changed
	}
	return s.countOthers()
}

// leavesEnough reads all members before a VM is removed that is one too many.
func (s *step) leavesEnough() error {
	if s.a.Leaves == 0 {
		return nil
	}
	s.by.view.readMembers(s.ref.UID)
	return s.countOthers()
}

// countOthers counts the members that a scale-in leaves, by what the replica has just read.
func (s *step) countOthers() error {
	stay, v := map[int32]bool{}, s.by.view
	for moRef, g := range v.vms {
		if !g.gone && !g.blind && g.uid == s.ref.UID && moRef != s.a.MoRef && !v.vcenter.find(moRef).stray && g.vm.Stays() {
			stay[g.vm.Ordinal] = true
		}
	}
	if len(stay) < s.a.Leaves {
		return changed
	}
	return nil
}

// look reads the VM again, and returns why the step must not act on it.
func (s *step) look() error {
	m, a := s.vc.find(s.a.MoRef), s.a
	switch {
	case m == nil || m.gone:
		return objectGone
	case m.hidden:
		return unreadable
	case m.uid != s.ref.UID || m.Ordinal != a.Ordinal:
		return notOurs
	case a.Marked && !(m.Marked && (m.MarkReason != plan.MarkReasonPowerCycle || a.Op == plan.PowerOff || a.Op == plan.ShutdownGuest) || !m.Quarantined.IsZero() && m.Marked):
		return wantedAfterAll
	case a.Op == plan.PowerOn && m.Marked:
		return changed
	case a.Op == plan.Quarantine && m.Power != plan.PoweredOff, a.Op == plan.Reset && m.Power != plan.PoweredOn:
		return wrongPower
	}
	return nil
}

// stamp writes to the stamp what a step records before it acts: the restart of a member, or that it is no longer a standby member.
func (s *step) stamp() {
	if m := s.vc.find(s.a.MoRef); s.a.Op == plan.PowerOn && m.Standby {
		m.Standby, m.Generation = false, max(m.Generation, s.a.Generation)
		m.reconfigured()
	}
	if m := s.vc.find(s.a.MoRef); s.a.Op == plan.Reset {
		s.vc.apply(m, plan.Action{Op: plan.Reset, MoRef: m.MoRef})
		m.Restarted = seconds(time.Now())
		m.reconfigured()
	}
}

// ask asks a guest to halt, after the stamp has recorded the request. If the guest can't be asked, ask removes the record.
func (s *step) ask() error {
	m := s.vc.find(s.a.MoRef)
	err := error(leaseOver)
	switch {
	case m.gone:
		return objectGone
	case m.hidden:
		return noPermission
	case m.Power != plan.PoweredOn:
		return nil
	case !m.Tools:
		err = noTools
	case time.Since(m.Shutdown.At) > 30*time.Second: // the stamp is too old
		err = untried(changed)
	case s.by.loop.Leased(s.ref.UID, s.a.Key):
		s.checkPromise(m)
		s.checkTrouble(m)
		m.asked, m.halts = time.Now(), s.set.halts
		s.by.asked[m.MoRef] = m.BootTime
		return nil
	}
	if m.Shutdown == s.asked { // otherwise another replica has asked since
		m.Shutdown, m.Generation = s.unasked.Shutdown, s.unasked.Generation
	}
	m.reconfigured()
	return err
}

// asksFirst reports whether a PowerOff must first ask the guest to halt: the guest ignored a request, but not one of this replica.
func (s *step) asksFirst(m *plan.VM) bool {
	boot, asked := s.by.asked[m.MoRef]
	return plan.ArgsOf[plan.PowerOffArgs](s.a.Args).Unheeded && m.Tools && !(asked && boot.Equal(m.BootTime))
}

func (s *step) startRemoveFolder() (over bool, err error) {
	if err := s.noCloneRunning(); err != nil {
		return false, err
	}
	v := s.by.view
	if v.read(""); !s.vc.standing(s.a.MoRef) {
		return true, nil
	}
	foreign := false
	for _, m := range s.vc.vms {
		if m.gone || m.Folder != s.vc.folder && m.Folder != s.vc.quarantine {
			continue
		}
		v.read(m.MoRef)
		if g := v.vms[m.MoRef]; !m.stray && !m.IsTemplate && (g.blind || g.uid == s.ref.UID) && s.set.defect != removesBlindly {
			return false, removing
		}
		foreign = true
	}
	if foreign && s.set.defect != removesBlindly {
		return false, unmanaged
	}
	return false, nil
}

// noCloneRunning fails while a clone runs that was already running when the replica first asked about this group.
func (s *step) noCloneRunning() error {
	var clones []int
	for _, x := range s.steps {
		if x.a.Op == plan.Clone && x.phase == running {
			clones = append(clones, x.id)
		}
	}
	awaited, known := s.by.clones[s.ref.UID]
	if !known {
		awaited = clones
	}
	awaited = slices.DeleteFunc(slices.Clone(awaited), func(id int) bool { return !slices.Contains(clones, id) })
	s.by.clones[s.ref.UID] = awaited
	if len(awaited) > 0 {
		return cloneRunning
	}
	return nil
}
