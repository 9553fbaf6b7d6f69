package loop

import (
	"maps"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/pace"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A task may stand still for days, because its VM has a pending question or vCenter makes no progress. Its action
// stays under way, so that nothing else is done to its VM, but takes no slot and does not count for the pace: others proceed.
// When the task makes progress, its action counts again, even if that exceeds the slots. A task without progress may also wait for others
// in vCenter that got ahead of it: so there are fewer slots then, or every one that is given back would be one task more in vCenter.

// freeSlots records which of a group's actions stand still. The caller holds l.mu.
func (l *Loop) freeSlots(g *group, stalled map[string]plan.Fault) {
	for _, vm := range slices.Sorted(maps.Keys(g.paced)) {
		fault, stands := stalled[vm]
		switch {
		case stands:
			if g.stalled == nil {
				g.stalled = map[string]plan.Fault{}
			}
			g.stalled[vm] = fault
			trouble := ""
			if fault.Reason == plan.ReasonTaskStalled {
				trouble = "a task made no progress"
			}
			l.tellShrunk(l.pace.Stand(g.paced[vm], time.Now(), trouble), pace.Stalled)
		case g.stalled[vm].Reason != "":
			delete(g.stalled, vm)
			l.pace.GoOn(g.paced[vm])
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
func (g *group) atWork() int { return len(g.paced) - len(g.stalled) }
