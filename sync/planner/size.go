// This file has what is known of sizes that change in place (resize.go).

package planner

import (
	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// resizes reports whether the member is to be given another size in place.
func (m *member) resizes() bool {
	return m.resize != "" && m.nominated == "" && (m.fate == remains || m.fate == powerCycled) && !m.MarkedForRemoval() && !m.duplicate && m.Reachable
}

// hot reports whether the size can be changed while the VM runs. vCenter may refuse the change all the same. The failure says so, and then, until
// the next edit of the spec, the mark for a power cycle.
func (f *facts) hot(m *member) bool {
	if m.MarkReason == plan.MarkReasonPowerCycle && m.Generation == f.Group.Generation {
		return false
	}
	cpu, memory := f.Group.Spec.CPU, f.Group.MemoryMB()
	allocated := cpu == m.CPU && memory == m.MemoryMB // only its reservations, limits and shares differ
	if p := f.Pending[m.name]; p.Op == plan.Reconfigure && p.State != plan.Running && p.Fault.Reason != "" && !p.Fault.Transient && !(allocated && p.Fault.NeedsOperator) {
		return false
	}
	return (cpu == m.CPU || cpu > m.CPU && m.CPUHotAdd) &&
		(memory == m.MemoryMB || memory > m.MemoryMB && m.MemoryHotAdd && (m.MaxHotMemoryMB == 0 || memory <= m.MaxHotMemoryMB))
}

// refusesResize reports whether the VM refused the size while it was off, so that Auto replaces it. The mark records that when the process
// has forgotten the failure.
func (f *facts) refusesResize(m *member) bool {
	p := f.Pending[m.name]
	refused := p.Op == plan.Reconfigure && p.Fault.Reason == plan.ReasonResizeRefused
	return f.policy.Resize == v1alpha1.ResizeAuto && (refused || m.Marked && m.MarkReason == plan.MarkReasonResize)
}

// wantsCycle reports whether the member has to be powered off for its new size.
func (d *decision) wantsCycle(m *member) bool {
	return m.resizes() && m.Power == plan.PoweredOn && !d.facts.hot(m)
}
