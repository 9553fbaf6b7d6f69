package loop

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/limiter"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A task may make no progress for days, because its VM has a pending question or vCenter is stuck. Its action counts as running, so that
// nothing else is done to its VM, but it gives its slot back, so that others proceed. When the task makes progress, its action takes a slot
// again, even if that exceeds the slots. A task without progress may also wait for others in vCenter that got ahead of it, so the limit is
// cut then: otherwise every slot that is given back would become one more task in vCenter.

// freeSlots records which of a group's actions make no progress. The caller holds l.mu.
func (l *Loop) freeSlots(g *group, stalled map[string]plan.Fault) {
	for _, vm := range g.runs.inOrder() {
		r := g.runs[vm]
		if r.slot == nil {
			continue
		}
		fault, stands := stalled[vm]
		switch {
		case stands:
			if r.stalled == nil {
				count(l.working, g.ref.Namespace, -1)
			}
			r.stalled = &fault
			l.settle(r)
			why := ""
			if fault.Reason == plan.ReasonTaskStalled {
				why = "a task made no progress"
			}
			l.tellCut(l.limiter.Suspend(r.slot, time.Now(), why), limiter.Stalled)
		case r.stalled != nil:
			r.stalled = nil
			count(l.working, g.ref.Namespace, 1)
			l.limiter.Resume(r.slot)
		}
	}
}

// lookForStalled is freeSlots for a group that is not planned now, because its lease is over. g can be nil.
func (l *Loop) lookForStalled(g *group, now time.Time) {
	if g == nil {
		return
	}
	l.mu.Lock()
	if len(g.runs) == 0 {
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
