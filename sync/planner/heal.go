package planner

import (
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Healing has a budget, spec.healing.maxUnhealthy. If more members are unhealthy, the cause is probably not in the members (a network, a host,
// the account's privileges), and none is restarted or replaced. Members that vCenter can't reach or show are never healed, and count as
// unhealthy.

// healable reports whether the member runs, is not ready, waits for no operator, and shows evidence that it is unhealthy. A member waits for an
// operator if it has a pending question, its customization failed, or it did not take its addresses.
func (s *sets) healable(m *member) bool { return m.runsUnready() && s.isEvident(m) }

// isEvident reports whether there is evidence that a member that is not ready is unhealthy. Silent VMware Tools are no evidence: they are silent
// during an upgrade, on all guests at once. Evidence is:
//
//   - its probe fails, and failed probes are not suppressed (suppressed);
//   - since the VM was powered on, VMware Tools have not reported what readiness.check asks for. That is no evidence for a VM that was
//     adopted while it ran.
func (s *sets) isEvident(m *member) bool {
	switch {
	case m.answer.silence != "":
		return !m.answer.open && s.suppressed == nil
	case len(m.UnreportedAddresses) > 0, s.facts.policy.Check == v1alpha1.ReadyPoweredOn:
		return false
	}
	return m.Former == (plan.Former{}) || m.BootTime.After(m.Created)
}

// unreadyTooLong reports whether a member that is not ready has had readiness.timeoutSeconds to become ready.
func (d *decision) unreadyTooLong(m *member) bool {
	due := m.unreadySince(d.facts.Now).Add(d.facts.policy.InitialDelay + d.facts.policy.Timeout)
	d.wake.note(due)
	return !d.facts.Now.Before(due)
}

// unhealthy reports whether the member counts against the budget: it is not ready, whether or not it has timed out, and with or without
// evidence. (Members that fail together time out one by one, and a restart begins a member's time-out again.)
func (d *decision) unhealthy(m *member) bool {
	if m.Marked {
		return m.MarkReason == plan.MarkReasonHealing && !m.ready
	}
	counts := m.unreadySince(d.facts.Now).Add(d.facts.policy.InitialDelay)
	d.wake.note(counts)
	return m.runsUnready() && len(m.UnreportedAddresses) == 0 && !d.facts.Now.Before(counts) // see otherwiseUnhealthy
}

// findUntaken finds the members whose guests have had their time to take the addresses that they were given, and report others.
func (d *decision) findUntaken() {
	for i := range d.sets.members {
		m := &d.sets.members[i]
		m.untakenTooLong = len(m.UnreportedAddresses) > 0 && m.runsUnready() && d.unreadyTooLong(m)
	}
}

// nominate finds the members that stay unready, within the budget: each is restarted, or nominated to be replaced.
func (h *healing) nominate(d *decision, order []int) {
	h.findTrial(d)
	var sick []*member
	running := 0
	seen := d.unhealthyNames(order)
	for _, i := range order {
		m := &d.sets.members[i]
		switch {
		case m.Marked && m.MarkReason == plan.MarkReasonHealing && !m.ready: // its replacement began, and is finished unless the member recovers
			m.nominate(plan.MarkReasonHealing, "healing: it stayed unready")
			running++
		case m.nominated != "" || m.leaves():
		case d.sets.healable(m) && !m.Marked && d.unreadyTooLong(m):
			sick = append(sick, m)
		case d.sets.healable(m) && m.restarted():
			running++
		}
	}
	if len(sick) == 0 || d.facts.policy.Heal == v1alpha1.HealNone {
		return
	}
	for _, m := range sick {
		m.decide(plan.Heal, d.facts.unreadyText(m))
		m.awaits = "fewer members to be unhealthy (spec.healing.maxUnhealthy)"
	}
	seen = append(seen, d.otherwiseUnhealthy()...)
	if len(seen) > d.facts.policy.MaxUnhealthy {
		h.tooMany = seen
		return
	}
	never := h.neverReady(sick)
	room := min(len(sick), max(0, d.facts.policy.AtOnce-running))
	for _, m := range sick[:room] {
		h.heal(d, m, never)
	}
	for _, m := range sick[room:] {
		m.awaits = "other members that are being healed (spec.healing.maxConcurrent)"
	}
}

// unhealthyNames names the members that count against the budget because they are not ready.
func (d *decision) unhealthyNames(order []int) (names []string) {
	for _, i := range order {
		if m := &d.sets.members[i]; d.unhealthy(m) {
			names = append(names, m.displayWith("not ready"))
		}
	}
	return names
}

// otherwiseUnhealthy names the members that count against the budget for another reason.
func (d *decision) otherwiseUnhealthy() []string {
	names := slices.Concat(d.sets.unreachable(), d.sets.unconfirmed(), d.sets.missingNames())
	for _, m := range d.sets.asking {
		if m.Power == plan.PoweredOn && m.Reachable && m.Quarantined.IsZero() {
			names = append(names, m.displayWith("waits for an answer"))
		}
	}
	for i := range d.sets.members {
		if m := &d.sets.members[i]; m.uncustomized == plan.CustomizationFailed {
			names = append(names, m.name+" (customization failed)")
		}
	}
	for i := range d.sets.members {
		if m := &d.sets.members[i]; m.untakenTooLong {
			names = append(names, m.name+" (has not taken its addresses)")
		}
	}
	return names
}

// findTrial finds out whether members that are created from the present spec become ready. The status keeps the trial, since vCenter doesn't
// show VMs that were replaced. An edit of the spec begins a new trial, unless a member of the present target was ready already.
func (h *healing) findTrial(d *decision) {
	stored := d.facts.Group.Status.Trial
	if d.facts.revision == "" { // the target is unknown
		h.trial = stored
		return
	}
	t := v1alpha1.Trial{Target: d.facts.target()}
	if stored != nil && stored.Target == t.Target {
		t.Ready = stored.Ready
		if t.Generation = stored.Generation; t.Generation == d.facts.Group.Generation {
			t.Replaced = slices.Clone(stored.Replaced)
		}
	}
	t.Ready = t.Ready || slices.ContainsFunc(d.sets.members, func(m member) bool { return m.differs() == "" && m.ready && m.Former == (plan.Former{}) })
	for i := range d.sets.members {
		if m := &d.sets.members[i]; m.differs() == "" && m.MarkedForRemoval() && m.MarkReason == plan.MarkReasonHealing {
			note(&t, m.MoRef)
		}
	}
	if t.Generation = d.facts.Group.Generation; t.Ready {
		t.Generation, t.Replaced = 0, nil
	}
	if h.trial = &t; len(d.sets.members) == 0 && !t.Ready && len(t.Replaced) == 0 {
		h.trial = nil // nothing was tried yet
	}
}

// note records a VM that healing replaces.
func note(t *v1alpha1.Trial, moRef string) {
	if !slices.Contains(t.Replaced, moRef) && len(t.Replaced) < maxNeverReady {
		t.Replaced = append(t.Replaced, moRef)
	}
}

// neverReady names the members of the present spec that never became ready, if none ever did: those that healing has replaced, and those
// that it would replace now.
func (h *healing) neverReady(sick []*member) (names []string) {
	if h.trial == nil || h.trial.Ready {
		return nil
	}
	names = slices.Clone(h.trial.Replaced)
	for _, m := range sick {
		if m.differs() == "" && !slices.Contains(names, m.MoRef) {
			names = append(names, m.displayWith(m.MoRef))
		}
	}
	return names
}

// restarted reports whether the member has been restarted since it was last ready.
func (m *member) restarted() bool { return !m.Restarted.IsZero() && !m.Restarted.Before(m.since) }

// checkOf names the check that a member fails.
func (f *facts) checkOf(m *member) string {
	if m.answer.silence != "" {
		return f.Group.Spec.Readiness.ProbeField()
	}
	return string(f.policy.Check)
}

// unreadyText says for how long a member was not ready.
func (f *facts) unreadyText(m *member) string {
	return fmt.Sprintf("healing: not ready for %d s (%s)", int((f.policy.InitialDelay + f.policy.Timeout).Seconds()), f.checkOf(m))
}

// maxNeverReady is how many members of one spec can fail to become ready before healing stops replacing them.
const maxNeverReady = 2

// heal restarts a member, or nominates it to be replaced. never are the members of the present spec that never became ready, if none ever
// did.
func (h *healing) heal(d *decision, m *member, never []string) {
	m.awaits = ""
	switch {
	case d.facts.policy.Heal == v1alpha1.HealRestartThenReplace && !m.restarted():
		m.restart = m.why
		return
	case m.differs() == "" && len(never) >= maxNeverReady:
		m.awaits = "an edit of the spec: no member made from it has been ready"
		h.inVain = never
		return
	case d.update.stuck != nil && m.differs() == "": // a new clone of the same spec probably wouldn't become ready either
		m.awaits = "an edit of the spec: the update has stopped"
		return
	case d.cloneBlocked(m): // it could not be recreated
		m.awaits = anOperator
		return
	}
	m.nominate(plan.MarkReasonHealing, m.why)
	if h.trial != nil && !h.trial.Ready && m.differs() == "" {
		note(h.trial, m.MoRef)
	}
	if m.restarted() {
		m.why += ", despite a restart"
	}
}
