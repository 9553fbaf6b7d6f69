package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The disks that the spec gives to a member are in its stamp, so a member differs by what that says: a disk that it lacks is added, and
// one that is too small grows, both while it runs. One on another datastore, or made otherwise, is replaced with its member
// (cloneDifference).

// setDisks plans the change of disks of a member that is kept. A member that never ran is prepared first.
func (s *steps) setDisks(m *member, why string) {
	if _, later := s.stepOf[m.name]; !later {
		m.begins(settingDisks, s.setDisksOf(m, why))
	}
}

// giveData gives a member its persistent disks, before it is powered on.
func (s *steps) giveData(m *member, why string) {
	m.begins(starting, s.setDisksOf(m, why))
}

// setDisksOf changes the disks of a member, and reports whether nothing blocks that.
func (s *steps) setDisksOf(m *member, reason string) bool {
	details, _ := s.facts.details(m.Ordinal)
	unblocked := s.act(plan.Action{Op: plan.SetDisks, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Generation: s.facts.Group.Generation, Args: details, Reason: reason})
	if p := s.facts.Pending[m.name]; !unblocked && p.Fault.NeedsOperator {
		s.diskFaults = append(s.diskFaults, plan.FaultOf{Who: m.name, Fault: p.Fault})
	}
	return unblocked
}
