package planner

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A size is CPUs and memory, with their reservations, limits and shares. The latter can always change while the VM runs; CPUs and memory can grow
// if the VM's hot-plug flags allow that. Otherwise the member is power-cycled: its guest is shut down, the VM changed, and powered on. Since
// that takes the member out of service, it is marked first, like a member that is to be removed: otherwise two replicas of the server with
// different specs could each take one down. The change of size removes the mark.

// resizes reports whether the member is to be given another size in place.
func (m *member) resizes() bool {
	return m.resize != "" && m.nominated == "" && (m.fate == remains || m.fate == powerCycled) && !m.MarkedForRemoval() && !m.duplicate && m.Reachable
}

// hot reports whether the size can be changed while the VM runs. vCenter may refuse the change all the same. The failure says so, and then, until
// the next edit of the spec, the mark for a power cycle.
func (f *facts) hot(m *member) bool {
	if m.Why == plan.WhyPowerCycle && m.Generation == f.Group.Generation {
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
	return f.policy.Resize == v1alpha1.ResizeAuto && (refused || m.Marked && m.Why == plan.WhyResize)
}

// wantsCycle reports whether the member has to be powered off for its new size.
func (d *decision) wantsCycle(m *member) bool {
	return m.resizes() && m.Power == plan.PoweredOn && !d.facts.hot(m)
}

// chooseCycles decides which members are powered off now for their new size. A member that is off, or whose guest is halting, keeps its mark until
// its size is changed. A member waits while another VM has its ordinal: that VM may be the only one that serves, and it would be taken down as
// soon as the member is off.
func (d *decision) chooseCycles(order []int) {
	slack, begun := d.slack, 0
	for _, i := range order {
		m := &d.sets.members[i]
		switch {
		case m.Marked && m.resizes() && m.Power == plan.PoweredOff, m.Marked && d.wantsCycle(m) && m.halting():
			m.fate = powerCycled
		case !d.wantsCycle(m), m.contested, m.mayServe() && !d.comesBack(m, begun):
		case m.halting():
			if slack >= 0 || !m.mayServe() {
				m.fate = powerCycled
			}
		case !m.mayServe(), m.serving && slack > 0, (d.facts.takenDown(m) || !m.ready) && slack >= 0:
			m.fate = powerCycled
			slack -= int(oneIf(m.serving))
		}
		begun += int(oneIf(m.fate == powerCycled))
	}
}

// comesBack reports whether a member can be expected to serve again after a power cycle: other members of the present spec do that were powered on
// lately, or it is the first that is power-cycled.
func (d *decision) comesBack(m *member, begun int) bool {
	s := &d.successors
	return (!s.unfinished || m.Marked) && (begun == 0 || d.isLate(s.booted, m))
}

// resizeInPlace plans the next step that changes a member's size.
func (s *steps) resizeInPlace(m *member, why string) {
	unblocked := true
	a := plan.Action{Op: plan.Reconfigure, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Args: s.facts.resizeArgs(m, false), Reason: why}
	switch {
	case m.Power == plan.PoweredOff:
		unblocked = s.act(a)
	case s.facts.hot(m):
		a.Args = s.facts.resizeArgs(m, true)
		unblocked = s.act(a)
	case m.fate != powerCycled, !m.Marked && !s.canMark(m):
	case !m.Marked:
		unblocked = s.act(s.facts.marking(m, plan.WhyPowerCycle, fmt.Sprintf("power cycle: it %s, which cannot change while the VM is on", m.resize)))
	case !s.passes(m), m.halting() && m.mayServe() && s.decision.slack < 0:
	default:
		unblocked = s.takeDown(m, "power cycle: it "+m.resize)
	}
	m.begins(resizing, unblocked)
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

// takeDown plans the next step of powering a member off: its guest is asked to shut down; if it does not in time, or cannot
// be asked, the VM is powered off. takeDown reports whether nothing blocks that. In a deletion, the stamp that precedes the request to
// the guest has the deletion's generation: a replica that knows only an older one stops acting.
func (s *steps) takeDown(m *member, reason string) bool {
	a := plan.Action{Op: plan.PowerOff, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, Marked: m.Marked && !s.facts.Finalizing, Leaves: s.mustLeave(m),
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
