package planner

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// remove is the only way in which a VM leaves its group. It plans the VM's next step, or none while the VM can't be removed yet; reason says
// why it is removed.
//
//	removal   the VM                            can be removed when                               how
//	--------  --------------------------------  ------------------------------------------------  ---------------------------
//	chosen    a member that was selected:       it is marked for removal (by removeChosen) and    powered off, then destroyed;
//	          scale-in, update, resize,         passes the preconditions (preconditions)          with quarantineSeconds put
//	          healing, spec.replace; a                                                            into quarantine instead; a
//	          duplicate that ever ran                                                             duplicate always
//	expired   a VM in quarantine                its time is over, and it is off: one that         destroyed
//	                                            was powered on is kept (decideQuarantined)
//	duplicate a VM of which another one is      it is off (settle)                                destroyed, if vCenter's
//	          the member                                                                          events show it never ran
//	idle      a standby member that is unfit,   it is marked for removal, and off                 destroyed
//	          or one too many (discardStandby)
//	deleted   any VM of a deleted group         it is drained; with deletion.policy Retain,       powered off, then destroyed
//	                                            the deletion is announced (removeAll)
//	retained  a member of a deleted group       the deletion is announced; the announcing one     given its former name and
//	          with deletion.policy Retain       last, when every other replica's lease is over    folder, then its stamp taken
//
// A VM that vCenter cannot reach is never removed. Right before vsphere destroys a VM, it reads and checks its stamp, its mark
// (Action.Marked) and its events (DestroyArgs.NeverOn) again.
func (s *steps) remove(m *member, on removal, reason string) (unblocked bool) {
	a := plan.Action{Op: plan.Destroy, Key: s.facts.stepKey(m), Ordinal: m.Ordinal, MoRef: m.MoRef, Reason: reason,
		Marked: on == chosen || on == expired || on == idle, Leaves: s.mustLeave(m)}
	kept := !m.Quarantined.IsZero()
	switch {
	case !m.Reachable || !s.canGo(m, on):
		return true
	case on == retained:
		return s.release(m, a.Key, reason)
	case m.Power != plan.PoweredOff && kept:
		a.Op = plan.PowerOff
	case m.Power != plan.PoweredOff:
		return s.takeDown(m, reason)
	case on == chosen && s.facts.policy.Quarantine > 0, (on == chosen || on == idle) && m.MarkReason == plan.MarkReasonDuplicate:
		a.Op, a.ChangeVersion = plan.Quarantine, m.ChangeVersion
		if a.Reason += fmt.Sprintf("; kept in quarantine for %d s", int(s.facts.policy.Quarantine.Seconds())); m.MarkReason == plan.MarkReasonDuplicate {
			a.Reason = reason + "; kept until an operator deletes it in vCenter"
		}
	}
	switch {
	case a.Op != plan.Destroy:
	case on == duplicate:
		a.Args = plan.DestroyArgs{NeverOn: true}
	case s.unannounced(m):
		return s.act(s.announcement(m))
	default:
		if first, unblocked := s.partDisks(m, on, reason); first {
			return unblocked
		}
		a.Args = plan.DestroyArgs{Keeps: plan.KeptDisks(m.VM.Disks)}
	}
	return s.act(a)
}

// canGo reports whether a VM can be removed now, according to the table at remove.
func (s *steps) canGo(m *member, on removal) bool {
	switch on {
	case chosen:
		return (m.leaves() || m.duplicate) && m.MarkedForRemoval() && s.passes(m)
	case expired:
		return s.facts.due(m) && m.Power == plan.PoweredOff
	case idle:
		return m.MarkedForRemoval() && m.Power == plan.PoweredOff
	case duplicate:
		return m.duplicate && m.Power == plan.PoweredOff
	}
	return s.facts.Finalizing && s.sets.isAnnounced() && !s.sets.draining && (on == retained || s.passes(m))
}

// release plans the next step that turns a member of a deleted group into an ordinary VM: an adopted one gets its former name and folder
// back, if possible; then it loses its stamp. The last member keeps its stamp, with the mark of the deletion, until no other replica of the
// server can have a lease: a replica that saw neither stamp nor mark would clone the member again.
func (s *steps) release(m *member, as, reason string) bool {
	a := plan.Action{Key: as, Ordinal: m.Ordinal, MoRef: m.MoRef, Reason: reason}
	switch {
	case m.Former.Name != "" && m.VM.Name == m.name && m.Former.Name != m.name && !s.facts.refused(m, plan.Rename):
		a.Op, a.ChangeVersion, a.Args = plan.Rename, m.ChangeVersion, plan.RenameArgs{Name: m.Former.Name}
	case m.Former.Folder != "" && m.VM.Folder == s.facts.State.Folder && m.Former.Folder != s.facts.State.Folder && !s.facts.refused(m, plan.Move):
		a.Op, a.Args = plan.Move, plan.MoveArgs{Folder: m.Former.Folder}
	case s.sets.outlasts(m):
		return true
	case s.sets.isLastToGo(m) && !s.facts.leaseOver():
		s.wake.note(s.facts.leaseEnds())
		return true
	default:
		a.Op, a.ChangeVersion = plan.Release, m.ChangeVersion
	}
	return s.act(a)
}

// outlasts reports whether a member is kept until all other VMs of the deleted group are gone.
func (s *sets) outlasts(m *member) bool {
	return s.isLastToGo(m) && s.shown() > 1
}
