package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// ended reports whether a deleted group is gone: nothing of it is left, and no child is observed.
func (s *steps) ended() bool {
	return s.facts.Finalizing && s.facts.blockedBy == nil && s.sets.empty() && s.facts.Emptied && s.facts.childless()
}

// findThoseToEnd finds the steps towards the end of a group: every member is removed, then the group's folder. The group ends once a fresh read of vCenter
// has confirmed that nothing is left and no clone is running, and Metacontroller shows no child. With deletion.policy Retain, and for a deletion with
// --cascade=orphan, the members are released, not removed. An invalid spec does not stop the deletion; spec.paused does. The answer has no children, so
// Metacontroller deletes them; but while members are being drained, the answer has the children, with terminating endpoints.
func (s *steps) findThoseToEnd() {
	s.removeAll()
	switch {
	case s.sets.left() > 0 || !s.facts.rulesGone():
	case s.facts.State.FolderUnknown: // the folder may exist
		fault := plan.Fault{Reason: plan.ReasonInventoryNotRead}
		if s.facts.State.Fault != nil {
			fault = *s.facts.State.Fault
		}
		s.faults = append(s.faults, plan.FaultOf{Fault: fault})
	default:
		s.removeFolder()
	}
}

// childless reports whether children don't keep the group from ending: none is left, or they are kept.
func (f *facts) childless() bool {
	return len(f.Children) == 0 || f.orphaned()
}

// left returns how many VMs of the group exist, or may exist.
func (s *sets) left() int {
	return s.exist() + len(s.arriving)
}

// removeAll removes or releases every VM with the group's stamp, duplicates included, one step at a time for each member's name. VMs in
// quarantine are removed even if members are released, except for duplicates, which are released like members.
//
// Another replica that doesn't know of the deletion may still have a lease. If members are removed, it learns of the deletion by their stamps,
// which have the deletion's generation once a guest is asked to shut down, or by their removal (removedElsewhere). Released members have no
// stamp, and that replica would clone them again. So before members are released, the last one is marked with the generation of the deletion.
// A member with persistent disks is marked before it is off (unannounced).
func (s *steps) removeAll() {
	for m := range s.decision.allVMs() {
		if why := s.facts.whyRestamp(m); why != "" {
			s.restamp(m, why)
		}
	}
	s.setRules()
	if !s.sets.isAnnounced() {
		s.act(s.announcement(s.sets.lastToGo()))
		return
	}
	if s.sets.draining {
		for i := range s.sets.members {
			if m := &s.sets.members[i]; m.ready {
				m.waits = &draining
			}
		}
		return
	}
	on, reason := deleted, s.facts.deletionReason()
	if s.facts.policy.Retain {
		on = retained
	}
	for i := range s.sets.quarantined {
		if q := &s.sets.quarantined[i]; q.MarkReason == plan.MarkReasonDuplicate {
			s.remove(q, on, reason)
		} else {
			s.remove(q, deleted, "the group is deleted")
		}
	}
	for i := range s.sets.members {
		s.remove(&s.sets.members[i], on, reason)
	}
	for i := range s.sets.standby { // they never ran, so they have nothing to retain
		s.remove(&s.sets.standby[i], deleted, "the group is deleted")
	}
}

// deletionReason says why the members of a deleted group are removed or released.
func (f *facts) deletionReason() string {
	switch {
	case f.orphaned():
		return "the group is deleted with --cascade=orphan, and its VMs are retained"
	case f.policy.Retain:
		return "the group is deleted, and its VMs are retained (deletion.policy)"
	}
	return "the group is deleted"
}

func (s *steps) removeFolder() {
	left := s.facts.folderLeft()
	if left && s.facts.folderKept() {
		s.wake.note(s.facts.leaseEnds())
	}
	for _, p := range s.facts.Pending {
		if p.Op != plan.ConfirmGone && p.Op != plan.RemoveFolder && p.State == plan.Running {
			return // the result of a running step may still show up
		}
	}
	if left {
		s.act(plan.Action{Op: plan.RemoveFolder, Key: plan.FolderKey, MoRef: s.facts.State.Folder, Args: plan.ConfirmArgs{Since: s.facts.FinalizingSince}, Reason: "the group is deleted and its folder is empty"})
		if s.facts.policy.Retain {
			s.faults = nil // retained VMs in the folder block nothing
		}
		return
	}
	if !s.facts.Emptied {
		s.act(plan.Action{Op: plan.ConfirmGone, Key: plan.ConfirmKey, Args: plan.ConfirmArgs{Since: s.facts.FinalizingSince}, Reason: "a fresh read must show that no VM of the group is left"})
	}
}

// folderStays reports whether the folder is kept, because it contains other VMs or vCenter refuses to remove it, and one lease has
// passed since the deletion, so that no other replica of the server can still clone into it.
func (f *facts) folderStays() bool { return f.folderKept() && f.leaseOver() }

func (f *facts) folderKept() bool {
	reason := f.Pending[plan.FolderKey].Fault.Reason
	return reason == plan.ReasonFolderHoldsStranger || reason == plan.ReasonFolderStays
}

// empty reports whether vCenter shows nothing of the group any more.
func (s *sets) empty() bool {
	return s.left() == 0 && s.facts.rulesGone() && !s.facts.State.FolderUnknown && !s.facts.folderLeft()
}

// folderLeft reports whether the group's own folder exists and is to be removed.
func (f *facts) folderLeft() bool {
	own := slices.Contains(f.OwnFolders, f.State.Folder) || len(f.OwnFolders) == 0 && !f.Emptied
	return f.State.Folder != "" && own && !f.folderStays()
}
