package planner

import (
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// member is a VM, or an ordinal without a VM, what is known of it, and what the plan decides about it.
type member struct {
	plan.VM
	verdict
	name string // the member's name, whatever the VM is called now
	// missing: the group has too few members, and this one is to be cloned; its clone isn't running yet.
	missing bool
	// unplaced: spec.networks has no static address for its ordinal.
	unplaced bool
	// duplicate: another VM of its ordinal is the member. contested: another VM has the ordinal, or may run where vCenter doesn't show it.
	duplicate, contested bool

	// returned: it was missing, vCenter shows it again, and the group has more members than it wants (missing.go). givenUp: it is returned,
	// and the group had given it up.
	returned, givenUp bool

	// outdated and resize say how it differs from the spec; empty if it does not. Only a new clone changes what is outdated.
	outdated, resize string
	// inVain: another clone would differ from the spec as it does (invain.go).
	inVain bool
	// disks says which disks are added or grow in place; empty if none. No update setting delays that.
	disks string

	// uncustomized is the state of its guest customization while that keeps it unready; empty if it does not.
	uncustomized plan.CustomizationState

	// untakenTooLong: its guest has had its time to take the addresses that it was given, and reports others.
	untakenTooLong bool

	ready  bool
	since  time.Time // when ready last changed
	answer answer    // what its probe answered, if it has one and readiness.check is satisfied
	// serving: it has been ready for minReadySeconds, and no step that takes it down has begun. It may be marked for removal.
	serving bool

	// nominated is why it is to be replaced; empty if it isn't.
	nominated plan.MarkReason
	// restart is why it is reset; empty if it is not.
	restart string
	// fate is what is about to happen to it.
	fate fate
	// haltsUntil is until when it counts as halting; zero if it does not.
	haltsUntil time.Time
	// heldUntil is until when annotations keep it from being taken down; zero if they don't, or it is not about to be.
	heldUntil time.Time
}

// answer is what is known of a member that has a probe.
type answer struct {
	// silence is why it may not be ready: its probe failed, or has not concluded.
	silence string
	// open: it is as ready as its status says, because its probe has not concluded. refused: the server is not allowed to probe it.
	open, refused bool
}

// fate is what is about to happen to a VM. The update decides first (held, waitsForStandbyMembers). A later decision replaces that one: healing
// can replace a member that the update holds, and a scale-in can remove it.
type fate int

const (
	// remains: it stays. Steps that don't take it down can change it.
	remains fate = iota
	// held: it differs from the spec, and update.strategy, update.paused, update.canary, a window, suppressed probes or an update that has
	// stopped keeps it as it is.
	held
	// waitsForStandbyMembers: it differs from the spec, and the standby members are updated first.
	waitsForStandbyMembers
	// powerCycled: it is powered off now, and on again when it has its new size.
	powerCycled
	// replacedLater: it is to be replaced, and waits for its successor or for other members, which go first.
	replacedLater
	// replacedNow: it is taken down now, and has a successor.
	replacedNow
	// withdrawn: it leaves its set now, without a successor: a member is removed, a standby member is removed or promoted, or a VM returns
	// from quarantine.
	withdrawn
)

// leaves reports whether a VM leaves its set now.
func (m *member) leaves() bool { return m.fate == replacedNow || m.fate == withdrawn }

// available reports whether a member counts as available in the status: it serves, and is not marked to be taken down.
func (m *member) available() bool { return m.serving && !m.Marked }

// mayServe reports whether clients may lose a service if the member is taken down: it is ready, or its probe has not concluded. A member
// that the server is not allowed to probe is as ready as its stored status says.
func (m *member) mayServe() bool { return m.ready || m.answer.open && !m.answer.refused }

// runsUnready reports whether the member is on, and nothing but its readiness is missing: it neither halts nor waits for an operator.
func (m *member) runsUnready() bool {
	return m.Power == plan.PoweredOn && m.Reachable && m.Question == "" && m.uncustomized != plan.CustomizationFailed && !m.ready && !m.duplicate && !m.halting()
}

// unreadySince returns when readiness.timeoutSeconds began for the member: when it was last ready, powered on, or restarted.
func (m *member) unreadySince(now time.Time) time.Time {
	began := m.since
	if m.BootTime.After(began) && m.BootTime.Before(now) { // vCenter's clock; ignored if it is ahead of ours
		began = m.BootTime
	}
	if m.Restarted.After(began) {
		began = m.Restarted
	}
	return began
}

// differs says how the member differs from the spec, other than in its disks; empty if it does not.
func (m *member) differs() string {
	if m.outdated != "" && m.resize != "" {
		return m.resize + " and " + m.outdated
	}
	return m.resize + m.outdated
}

// difference says how the member differs from the spec in anything.
func (m *member) difference() string {
	how := m.differs()
	if how != "" && m.disks != "" {
		how += " and "
	}
	return how + m.disks
}

// stepKey is the key of a VM's steps among those that are wanted or pending. The former name of a VM in quarantine may belong to a new member.
func (f *facts) stepKey(m *member) string {
	if m.Quarantined.IsZero() {
		return m.name
	}
	return plan.QuarantineName(f.Group.Name, m.Ordinal, m.MoRef)
}

// nominate nominates the member to be replaced. reason is for the status.
func (m *member) nominate(why plan.MarkReason, reason string) { m.nominated, m.why = why, reason }

// unprepared reports whether a member must not be powered on yet.
func (m *member) unprepared() bool { return strings.HasPrefix(m.Prepared, plan.Unprepared) }

// preparable reports whether a member can be prepared with the present spec, because it was cloned from it. (Other user data
// raises no generation, and does not concern Prepare.) A member that never ran and can't be prepared is removed.
func (f *facts) preparable(m *member) bool {
	return m.outdated == "" && f.revision != "" || m.Generation == f.Group.Generation
}

// neverRuns reports whether a member never ran, and can't be prepared with the present spec, so it is removed.
func (f *facts) neverRuns(m *member) bool { return m.unprepared() && !f.preparable(m) }

// hasData reports whether a VM has persistent disks.
func (m *member) hasData() bool {
	return slices.ContainsFunc(plan.Persistent(m.VM.Disks), func(d plan.MemberDisk) bool { return d.Parted == "" })
}

// isToMatchSpec reports whether steps bring the member in line with the spec: it is not removed, and no step takes it down.
func (m *member) isToMatchSpec() bool { return !m.leaves() && !m.Marked && !m.duplicate && m.Reachable }

// isOff reports whether the member is off, and should be on.
func (m *member) isOff() bool { return m.isToMatchSpec() && !m.contested && m.Power != plan.PoweredOn }

// halting reports whether the member's guest was asked to shut down since the VM was last powered on, and may still do so. The stamp of the
// request has the boot time that vCenter reported, so no two clocks are compared. An old request doesn't count: the guest ignored it.
func (m *member) halting() bool { return !m.haltsUntil.IsZero() }

// haltsUntil returns until when a VM counts as halting; zero if it does not.
func (f *facts) haltsUntil(vm *plan.VM) time.Time {
	if vm.Power != plan.PoweredOn || vm.Shutdown.At.IsZero() || !plan.SameBoot(vm.Shutdown.Boot, vm.BootTime) {
		return time.Time{}
	}
	over := vm.Shutdown.At.Add(f.policy.Shutdown + haltGrace)
	if !f.Now.Before(over) {
		return time.Time{}
	}
	return over
}

// haltGrace is how long after deletion.shutdownTimeoutSeconds a guest still counts as halting: in that time the server powers the VM off,
// if it is still to be taken down.
const haltGrace = time.Minute

// takenDown reports whether a step that takes the member down is running or has failed, so that the member may be down. An Unmark counts:
// another replica may be taking the member down for that mark. Unmark waits for that, but a failed one may have written without waiting.
func (f *facts) takenDown(m *member) bool {
	p := f.Pending[m.name]
	if p.MoRef != "" && p.MoRef != m.MoRef { // the step was for another VM with this name
		return false
	}
	return p.Op.TakesDown() && (p.State == plan.Running || !p.Fault.Untried) || p.Tried.TakesDown()
}

// isMarking reports whether this replica is writing the mark of a member.
func (f *facts) isMarking(m *member) bool {
	p := f.Pending[m.name]
	return p.Op == plan.Mark && p.State == plan.Running && (p.MoRef == "" || p.MoRef == m.MoRef)
}

// chosenSince returns when a member was marked or its group deleted, rounded up, because stamps and deletionTimestamps have whole seconds; zero
// if unknown.
func (f *facts) chosenSince(m *member) time.Time {
	var since time.Time
	if m.Marked && !m.MarkedAt.IsZero() && !m.MarkedAt.After(f.Now.Add(plan.ClockSkew)) {
		since = m.MarkedAt.Add(time.Second)
	}
	if !f.Finalizing {
		return since
	}
	deleted := f.FinalizingSince
	if f.Group.DeletionTimestamp != nil && !f.Group.DeletionTimestamp.After(f.Now.Add(plan.ClockSkew)) {
		deleted = f.Group.DeletionTimestamp.Time
	}
	if deleted = deleted.Add(time.Second); since.IsZero() || deleted.Before(since) {
		return deleted
	}
	return since
}

// display returns the member's name, with its name in vCenter if that differs.
func (m *member) display() string { return m.displayWith("") }

// displayWith is display with another note about the member.
func (m *member) displayWith(more string) string {
	return plan.DisplayName(m.name, m.renamed(), more)
}

// renamed returns the VM's name in vCenter, for people, if it is not the member's.
func (m *member) renamed() string {
	return m.Renamed(m.name)
}

// prefixed puts a prefix before a text that is not empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// isKept reports whether the member has a mark, and is not to be taken down.
func (m *member) isKept() bool {
	return m.Marked && !m.leaves() && m.fate != powerCycled && !m.duplicate && m.Reachable
}

// nextPowerOn names the member's next power-on.
func nextPowerOn(m *member) string {
	if m.unprepared() {
		return "first power-on"
	}
	return "next power-on"
}

func textIf(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// blocksName reports whether a VM on its way out still has its member's name in the group's folder.
func (f *facts) blocksName(q *member) bool {
	return q.VM.Name == q.name && q.VM.Folder == f.State.Folder && f.State.Folder != ""
}

const runningText = "a standby member that was powered on becomes a member"

func namesOf(members []*member) (names []string) {
	for _, m := range members {
		names = append(names, m.display())
	}
	return names
}
