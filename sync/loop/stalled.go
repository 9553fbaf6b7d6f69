package loop

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// An action whose task stands still (its VM asks an operator something, or vCenter does not get on with it) may do so for days. It
// stays under way, so that nothing else is done to its VM, but it takes no slot and does not count for the pace: others go on.
// Once it gets on, it counts again, even where that makes more than there are slots.

// freeSlots takes in which of a group's actions stand still. l.mu is held.
func (l *Loop) freeSlots(g *group, stalled map[string]plan.Fault) {
	for vm := range g.running {
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

// lookForStandstills is freeSlots for a group that is not planned now, because nobody calls for it. g may be nil.
func (l *Loop) lookForStandstills(g *group, now time.Time) {
	if g == nil {
		return
	}
	l.mu.Lock()
	observed, runs := g.observe(l.cfg, now), len(g.running) > 0
	l.mu.Unlock()
	if !runs {
		return
	}
	stalled := l.vcenter.State(g.ref, observed.Query()).Stalled
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freeSlots(g, stalled)
	l.next()
}

// atWork is how many of the group's actions take a slot.
func (g *group) atWork() int { return len(g.running) - len(g.stalled) }
