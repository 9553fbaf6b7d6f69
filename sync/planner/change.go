// This file has steps that several concerns take.

package planner

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// takeDown plans the next step of powering a member off: its guest is asked to shut down; if it does not in time, or cannot
// be asked, the VM is powered off. takeDown reports whether nothing blocks that. In a deletion, the stamp that precedes the request to
// the guest has the deletion's generation: a replica that knows only an older one stops acting.
func (s *steps) takeDown(m *member, reason string) bool {
	a := plan.Action{Op: plan.PowerOff, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, Marked: m.Marked && !s.facts.Finalizing, Leaves: s.mustLeave(m),
		Args: plan.PowerOffArgs{Deleted: s.facts.Finalizing}, Reason: reason}
	p := s.facts.Pending[m.name]
	switch {
	case m.Power != plan.PoweredOn || s.facts.policy.Shutdown == 0:
	case m.halting():
		if due := m.Shutdown.At.Add(s.facts.policy.Shutdown); s.facts.Now.Before(due) {
			s.wake.note(due)
			return true
		}
		a.Args = plan.PowerOffArgs{Unheeded: true, Deleted: s.facts.Finalizing}
		a.Reason += fmt.Sprintf("; the guest did not shut down within %d s", int(s.facts.policy.Shutdown.Seconds()))
	case m.Tools && !(p.Op == plan.ShutdownGuest && p.Fault.Reason == plan.ReasonToolsUnavailable):
		if a.Op, a.ChangeVersion, a.Args = plan.ShutdownGuest, m.ChangeVersion, nil; s.facts.Finalizing {
			a.Generation = s.facts.Group.Generation
		}
	}
	if a.Op == plan.PowerOff && s.unannounced(m) {
		a = s.announcement(m)
	}
	return s.act(a)
}

// prepare prepares a member, and reports whether nothing blocks it.
func (s *steps) prepare(m *member, reason string) bool {
	details, ok := s.facts.details(m.Ordinal)
	if !ok { // it is outdated then, or adopted
		details.Addresses = nil
	}
	return s.act(plan.Action{Op: plan.Prepare, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: details, Reason: reason,
		Generation: s.facts.Group.Generation})
}

// setDisksOf changes the disks of a member, and reports whether nothing blocks that.
func (s *steps) setDisksOf(m *member, reason string) bool {
	details, _ := s.facts.details(m.Ordinal)
	unblocked := s.act(plan.Action{Op: plan.SetDisks, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Generation: s.facts.Group.Generation, Args: details, Reason: reason})
	if p := s.facts.Pending[m.name]; !unblocked && p.Fault.NeedsOperator {
		s.diskFaults = append(s.diskFaults, plan.FaultOf{Who: m.name, Fault: p.Fault})
	}
	return unblocked
}

// createFolder creates the group's folder, and reports whether nothing blocks it.
func (s *steps) createFolder() bool {
	if !plan.MayCreateFolder(s.facts.Now, s.facts.Called, s.facts.FolderSeen) || s.facts.Blind || s.facts.later {
		s.waitCall = true
		return true
	}
	return s.act(plan.Action{Op: plan.CreateFolder, Key: plan.FolderKey, Args: &plan.Details{Spec: &s.facts.Group.Spec}, Reason: "members need the group's folder " + s.facts.Group.Namespace + "/" + s.facts.Group.Name})
}

// resizeArgs are the size that the spec gives to a member.
func (f *facts) resizeArgs(m *member, hot bool) plan.ResizeArgs {
	to := plan.ResizeArgs{CPU: f.Group.Spec.CPU, MemoryMB: f.Group.MemoryMB(), Hot: hot}
	if m.Allocation != f.allocation {
		details, _ := f.details(m.Ordinal)
		like := f.cloneOf(m.name, m.Ordinal, details, m.Standby)
		to.Like = &like
	}
	return to
}

func (f *facts) promotion(m *member, reason string) plan.Action {
	return plan.Action{Op: plan.PowerOn, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: plan.PowerOnArgs{Promotes: true},
		Generation: f.Group.Generation, Reason: reason}
}

// mustLeave returns how many members must be left when a scale-in removes a member. With persistent disks, it removes those of the highest ordinals even
// before all lower ones are made.
func (s *steps) mustLeave(m *member) int {
	if m.fate != withdrawn || m.IsStandby() || !m.Quarantined.IsZero() || s.facts.hasPersistentDisks() {
		return 0
	}
	return s.facts.want
}
