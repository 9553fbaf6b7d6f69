package planner

import (
	"fmt"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Healing doubts itself: when more members are unwell than a budget allows, the cause is thought to be elsewhere (a
// network, a host, our own rights), and nothing is restarted or replaced for it. What vCenter cannot reach or show is
// left alone always, and counts as unwell.

// sickSince is when the time of a member to become ready began: when it was last ready, powered on, or restarted.
func (m *member) sickSince(now time.Time) time.Time {
	began := m.since
	if m.Boot.After(began) && m.Boot.Before(now) { // vCenter's clock: one that is ahead of ours proves nothing
		began = m.Boot
	}
	if m.Restarted.After(began) {
		began = m.Restarted
	}
	return began
}

// healable reports whether the member runs, is not ready, and nothing else is being done about it. One that asks, or whose
// customization failed, waits for an operator.
func (v *view) healable(m *member) bool {
	return m.Power == plan.PoweredOn && m.Reachable && m.Question == "" && m.uncustomized != CustomizationFailed && !m.ready && !m.duplicate && !v.halting(m)
}

// sick reports whether it has been so for too long.
func (v *view) sick(m *member) bool {
	if !v.healable(m) || m.Marked {
		return false
	}
	due := m.sickSince(v.Now).Add(v.policy.initialDelay + v.policy.timeout)
	if v.Now.Before(due) {
		v.wakeAt(due)
		return false
	}
	return true
}

// unwell reports whether the member counts against the budget: it is not ready, whether or not its time is over. Those that
// fail together are past their time one after another, and those that were restarted start over.
func (v *view) unwell(m *member) bool {
	if m.Marked {
		return m.Why == plan.WhyHealing && !m.ready
	}
	counts := m.sickSince(v.Now).Add(v.policy.initialDelay)
	v.wakeAt(counts)
	return v.healable(m) && !v.Now.Before(counts)
}

// heal finds the members that are to be restarted or replaced because they stay unready.
func (v *view) heal(order []int) {
	var sick []*member
	var seen []string
	underWay := 0
	for _, i := range order {
		m := &v.members[i]
		if v.unwell(m) {
			seen = append(seen, m.displayWith("not ready"))
		}
		switch {
		case m.Marked && m.Why == plan.WhyHealing && !m.ready: // begun is carried through, unless it recovered
			m.retire, m.matter = plan.WhyHealing, "healing: it stayed unready"
			underWay++
		case m.retire != "" || m.leaves:
		case v.sick(m):
			sick = append(sick, m)
		case v.healable(m) && m.restarted():
			underWay++
		}
	}
	if len(sick) == 0 || v.policy.heal == v1alpha1.HealNone {
		return
	}
	seen = slices.Concat(seen, v.unreachable(), v.vanished())
	for _, m := range v.asking {
		if m.Power == plan.PoweredOn && m.Reachable && m.Quarantined.IsZero() {
			seen = append(seen, m.displayWith("asks an operator"))
		}
	}
	for _, f := range v.failedCustomizations(false) {
		seen = append(seen, f.who+" (customization failed)")
	}
	if len(seen) > v.policy.maxUnhealthy {
		v.suspended = fmt.Sprintf("%d of %d are unwell, more than spec.healing.maxUnhealthy allows (%d): %s; healing goes on when fewer are, or that is raised",
			len(seen), v.want, v.policy.maxUnhealthy, plan.AtMost(seen, 10))
		return
	}
	for _, m := range sick[:min(len(sick), max(0, v.policy.atOnce-underWay))] {
		v.healOne(m)
	}
}

// cloneElsewhere replaces members that their host has no room for, again and again, and that never ran: a new clone goes onto
// another host. (vsphere has asked vCenter's events before it gives that fault.)
func (v *view) cloneElsewhere(order []int) {
	if v.policy.heal == v1alpha1.HealNone || v.sourceFault() != nil {
		return
	}
	for _, i := range order {
		m := &v.members[i]
		p := v.Pending[m.name]
		if p.Op == plan.PowerOn && p.Fault.Reason == plan.ReasonHostFull && p.MoRef == m.MoRef && m.Power == plan.PoweredOff && m.Reachable && m.Boot.IsZero() && m.retire == "" {
			m.retire, m.matter = plan.WhyHealing, "its host has no room for it, and it never ran: it is cloned on another"
		}
	}
}

// restarted reports whether the member was restarted since it was last ready.
func (m *member) restarted() bool { return !m.Restarted.IsZero() && !m.Restarted.Before(m.since) }

func (v *view) healOne(m *member) {
	limit := int((v.policy.initialDelay + v.policy.timeout).Seconds())
	if v.policy.heal == v1alpha1.HealRestartThenReplace && !m.restarted() {
		m.restart = fmt.Sprintf("healing: not ready for %d s (%s)", limit, v.policy.check)
		return
	}
	if v.stuck != nil && m.differs() == "" {
		return // a new clone of what does not become ready would not either
	}
	if v.sourceFault() != nil {
		return // it could not be recreated
	}
	m.retire, m.matter = plan.WhyHealing, fmt.Sprintf("healing: not ready for %d s (%s)", limit, v.policy.check)
	if m.restarted() {
		m.matter += ", in spite of a restart"
	}
}

// restart resets the members that heal chose for it, unless they go for another reason.
func (v *view) restart() {
	for i := range v.members {
		if m := &v.members[i]; m.restart != "" && !m.leaves {
			v.act(plan.Action{Op: plan.Reset, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Reason: m.restart})
		}
	}
}
