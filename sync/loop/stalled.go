package loop

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A task may stand still for days, because its VM has a pending question or vCenter makes no progress. Its action
// stays under way, so that nothing else is done to its VM, but takes no slot and does not count for the pace: others proceed.
// When the task makes progress, its action counts again, even if that exceeds the slots.

// freeSlots records which of a group's actions stand still. The caller holds l.mu.
func (l *Loop) freeSlots(g *group, stalled map[string]plan.Fault) {
	for vm, a := range g.running {
		if !takesSlot(a) {
			continue
		}
		fault, stands := stalled[vm]
		_, stood := g.stalled[vm]
		switch {
		case stands:
			if g.stalled == nil {
				g.stalled = map[string]plan.Fault{}
			}
			if g.stalled[vm] = fault; !stood {
				l.running--
			}
		case stood:
			delete(g.stalled, vm)
			l.running++
		}
	}
}

// lookForStandstills is freeSlots for a group that is not planned now, because its lease is over. g may be nil.
func (l *Loop) lookForStandstills(g *group, now time.Time) {
	if g == nil {
		return
	}
	l.mu.Lock()
	if len(g.running) == 0 {
		l.mu.Unlock()
		return
	}
	observed := g.observe(l.cfg, now)
	l.mu.Unlock()
	stalled := l.vcenter.State(g.ref, observed.Query()).Stalled
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freeSlots(g, stalled)
	l.next()
}

// atWork is how many of the group's actions take a slot.
func (g *group) atWork() int { return len(g.running) - len(g.stalled) }
