package planner

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A size grows while the VM runs if its hot-plug flags allow that. Otherwise the guest
// is shut down, the VM changed, and powered on: a power cycle, which takes the member out of service. So the member is marked
// first, like one to be removed: otherwise two replicas of the server that know different specs could each take one down. The
// change of size takes the mark off.

// resizes reports whether the member is to be given another size in place.
func (m *member) resizes() bool {
	return m.resize != "" && m.retire == "" && !m.held && !m.yet && !m.leaves && !m.going() && !m.duplicate && m.Reachable
}

// hot reports whether the size can be changed while the VM runs. vCenter may still refuse it, which is remembered as a failure
// and then, once the member is marked for a power cycle, by that mark, until the next edit of the spec.
func (v *facts) hot(m *member) bool {
	if m.Why == plan.WhyPowerCycle && m.Generation == v.Group.Generation {
		return false
	}
	cpu, memory := v.Group.Spec.CPU, v.Group.MemoryMB()
	if p := v.Pending[m.name]; p.Op == plan.Reconfigure && p.State != plan.Running && p.Fault.Reason != "" && !p.Fault.Transient {
		return false
	}
	return (cpu == m.CPU || cpu > m.CPU && m.CPUHotAdd) &&
		(memory == m.MemoryMB || memory > m.MemoryMB && m.MemoryHotAdd && (m.MaxHotMemoryMB == 0 || memory <= m.MaxHotMemoryMB))
}

// wantsCycle reports whether the member has to be powered off for its new size.
func (v *facts) wantsCycle(m *member) bool {
	return m.resizes() && m.Power == plan.PoweredOn && !v.hot(m)
}

// chooseCycles decides which members are powered off now for their new size. A member that is off keeps its mark until its size is changed; so does one whose guest is halting already.
func (v *decision) chooseCycles(order []int) {
	slack := v.slack
	for _, i := range order {
		m := &v.members[i]
		switch {
		case m.Marked && m.resizes() && m.Power == plan.PoweredOff, m.Marked && v.wantsCycle(m) && v.halting(m):
			m.cycles = true
		case !v.wantsCycle(m):
		case v.halting(m):
			m.cycles = slack >= 0 || !m.mayServe()
		case !m.mayServe(), m.serving && slack > 0, (v.takenDown(m) || !m.ready) && slack >= 0:
			m.cycles = true
			slack -= int(oneIf(m.serving))
		}
	}
}

// resizeInPlace plans the next step that changes a member's size.
func (v *steps) resizeInPlace(m *member, why string) {
	goesOn := true
	a := plan.Action{Op: plan.Reconfigure, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Args: v.resizeArgs(false), Reason: why}
	switch {
	case m.Power == plan.PoweredOff:
		goesOn = v.act(a)
	case v.hot(m):
		a.Args = v.resizeArgs(true)
		goesOn = v.act(a)
	case !m.cycles:
	case !m.Marked:
		goesOn = v.act(v.marking(m, plan.WhyPowerCycle, fmt.Sprintf("power cycle: it %s, which cannot change while the VM is on", m.resize)))
	case !v.passes(m), v.halting(m) && m.mayServe() && v.slack < 0:
	default:
		goesOn = v.takeDown(m, "power cycle: it "+m.resize)
	}
	m.begins(resizing, goesOn)
}

// resizeArgs are the size that the spec gives to members.
func (v *facts) resizeArgs(hot bool) plan.ResizeArgs {
	return plan.ResizeArgs{CPU: v.Group.Spec.CPU, MemoryMB: v.Group.MemoryMB(), Hot: hot}
}

// takeDown plans the next step of powering a member off: its guest is asked to shut down; if it does not in time, or cannot
// be asked, the VM is powered off. takeDown reports whether nothing blocks that. In a deletion, the stamp that precedes the request to
// the guest has the deletion's generation: a replica that knows only an older one stops acting.
func (v *steps) takeDown(m *member, reason string) bool {
	a := plan.Action{Op: plan.PowerOff, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, Marked: m.Marked && !v.Finalizing, Args: plan.PowerOffArgs{Deleted: v.Finalizing}, Reason: reason}
	p := v.Pending[m.name]
	switch {
	case m.Power != plan.PoweredOn || v.policy.Shutdown == 0:
	case v.halting(m):
		if due := m.Shutdown.At.Add(v.policy.Shutdown); v.Now.Before(due) {
			v.wakeAt(due)
			return true
		}
		a.Args = plan.PowerOffArgs{Unheeded: true, Deleted: v.Finalizing}
		a.Reason += fmt.Sprintf("; the guest did not shut down within %d s", int(v.policy.Shutdown.Seconds()))
	case m.Tools && !(p.Op == plan.ShutdownGuest && p.Fault.Reason == plan.ReasonToolsUnavailable):
		if a.Op, a.ChangeVersion, a.Args = plan.ShutdownGuest, m.ChangeVersion, nil; v.Finalizing {
			a.Generation = v.Group.Generation
		}
	}
	return v.act(a)
}
