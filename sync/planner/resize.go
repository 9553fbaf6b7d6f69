package planner

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A size is CPUs and memory, with their reservations, limits and shares. The latter can always change while the VM runs; CPUs and memory can grow
// if the VM's hot-plug flags allow that. Otherwise the member is power-cycled: its guest is shut down, the VM changed, and powered on. Since
// that takes the member out of service, it is marked first, like a member that is to be removed: otherwise two replicas of the server with
// different specs could each take one down. The change of size removes the mark.

// toResize changes a member's size in place.
var toResize = &concern{why: (*decision).whyResize, next: (*steps).resizeInPlace}

// resizing: a member gets another size in place.
var resizing = &plan.Activity{Says: "resizing %s", Noun: "member", Busy: true, Updates: true}

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

// whyResize: a suspended member is resumed first.
func (d *decision) whyResize(m *member) string {
	return textIf(m.resizes() && m.Power != plan.Suspended, "resize: it "+m.resize)
}

// resizeInPlace plans the next step that changes a member's size.
func (s *steps) resizeInPlace(m *member, why string) {
	unblocked := true
	a := plan.Action{Op: plan.Reconfigure, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Args: s.facts.resizeArgs(m, false), Reason: why}
	switch {
	case m.Power == plan.PoweredOff:
		unblocked = s.act(a)
	case s.facts.hot(m):
		a.Args = s.facts.resizeArgs(m, true)
		unblocked = s.act(a)
	case m.fate != powerCycled, !m.Marked && !s.canMark(m):
	case !m.Marked:
		unblocked = s.act(s.facts.marking(m, plan.MarkReasonPowerCycle, fmt.Sprintf("power cycle: it %s, which cannot change while the VM is on", m.resize)))
	case !s.passes(m), m.halting() && m.mayServe() && s.decision.slack < 0:
	default:
		unblocked = s.takeDown(m, "power cycle: it "+m.resize)
	}
	m.begins(resizing, unblocked)
}
