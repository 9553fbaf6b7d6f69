package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The disks that the spec gives to a member are in its stamp, so a member differs by what that says: a disk that it lacks is added, and
// one that is too small grows, both while it runs. One on another datastore, or made otherwise, is replaced with its member
// (cloneDifference).

// disksDue says how the disks of a member differ from the spec in what can change in place. An adopted VM keeps its own, and those of one
// that never ran are identified as it is prepared.
func (v *facts) disksDue(m *member) string {
	if m.Former.Entry != "" || m.unprepared() {
		return ""
	}
	return plan.DisksToChange(&v.Group.Spec, m.VM.Disks)
}

// setDisks plans the change of disks of a member that stays. One that never ran is prepared first.
func (v *steps) setDisks(m *member, why string) {
	if _, later := v.stepOf[m.name]; !later {
		m.begins(settingDisks, v.setDisksOf(m, why))
	}
}

// setDisksOf changes the disks of a member, and reports whether nothing blocks that.
func (v *steps) setDisksOf(m *member, reason string) bool {
	details, _ := v.details(m.Ordinal)
	goesOn := v.act(plan.Action{Op: plan.SetDisks, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Generation: v.Group.Generation, Args: details, Reason: reason})
	if p := v.Pending[m.name]; !goesOn && p.Fault.NeedsOperator {
		v.diskFaults = append(v.diskFaults, named{Who: m.name, Fault: p.Fault})
	}
	return goesOn
}

// disksLost returns a fault if the spec would take a disk from a member, or make one smaller: the CRD refuses that, so the spec has got
// around it.
func (v *facts) disksLost() *plan.Fault {
	for i := range v.State.VMs {
		vm := &v.State.VMs[i]
		if lost := plan.DisksLost(&v.Group.Spec, vm.Disks); lost != "" && vm.Quarantined.IsZero() {
			return &plan.Fault{Reason: plan.ReasonDisksImmutable, NeedsOperator: true, Message: plan.MemberName(v.Group.Name, vm.Ordinal) + ": " + lost +
				": put that back, or scale the group to 0 first"}
		}
	}
	return nil
}

// difference says how the member differs from the spec in anything.
func (m *member) difference() string {
	how := m.differs()
	if how != "" && m.disks != "" {
		how += " and "
	}
	return how + m.disks
}
