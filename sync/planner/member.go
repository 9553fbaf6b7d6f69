package planner

import (
	"fmt"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// member is a VM and what the plan thinks of it.
type member struct {
	plan.VM
	verdict
	name string // the member's name, whatever the VM is called now
	// missing: it is to be cloned, and its clone is not running.
	missing bool
	// unplaced: its ordinal would have no static address.
	unplaced bool
	// duplicate: another VM is the member. contested: another VM has the ordinal, too, or may run where vCenter does not show it.
	duplicate, contested bool

	// returned: it was missing, it is back, and the group has more members than it wants: see missing.go. givenUp: likewise, and the group had
	// given it up.
	returned, givenUp bool

	// How it differs from the spec; empty if it does not. Only a new clone changes what is outdated.
	outdated, resize string
	// disks says how its disks differ in what can change in place; nothing delays it.
	disks string

	// uncustomized is why it is not ready whatever its guest reports; empty if its customization is done, or does not matter.
	uncustomized plan.CustomizationState

	ready  bool
	since  time.Time // when that was last seen to change
	answer answer    // if it is asked, and readiness.check is satisfied
	// serving: ready for long enough, and nobody has begun to take it down; it may be marked to go.
	serving bool

	// nominated is why it is to be replaced; empty if it isn't.
	nominated plan.Why
	// restart is why it is reset; empty if it is not.
	restart string
	// delay is what keeps an update from it. fate is what is about to happen to it.
	delay delay
	fate  fate
	// haltsUntil is until when it counts as halting; zero if it does not.
	haltsUntil time.Time
	// heldUntil is until when annotations keep it from being taken down; zero if they don't, or it is not about to be.
	heldUntil time.Time
}

// delay is what keeps an update from a member that differs from the spec.
type delay int

const (
	notDelayed             delay = iota
	held                         // the spec, a window or an update that has stopped keeps the member as it is
	waitsForStandbyMembers       // the standby members are updated first
)

// fate is what is about to happen to a VM.
type fate int

const (
	remains       fate = iota
	powerCycled        // it is powered off now, and on again when it has its new size
	replacedLater      // it is to be replaced: a successor can be made, and other members go first
	replacedNow        // it is taken down now, and has a successor
	withdrawn          // it leaves its set now, without a successor: a member is removed, a standby member is removed or promoted, a VM returns from quarantine
)

// leaves reports whether a VM leaves its set now.
func (m *member) leaves() bool { return m.fate == replacedNow || m.fate == withdrawn }

// available members are those that count: serving, and not about to go.
func (m *member) available() bool { return m.serving && !m.Marked }

// mayServe reports whether taking the member down may end a service: it is ready, or what is known of its answers leaves
// that open. A member that the server is not allowed to ask is only as ready as its status says.
func (m *member) mayServe() bool { return m.ready || m.answer.open && !m.answer.refused }

// markedForRemoval reports whether it is chosen to be removed; one that is chosen to be power-cycled stays.
func (m *member) markedForRemoval() bool { return m.Marked && m.Why != plan.WhyPowerCycle }

// differs says how the member differs from the spec; empty if it does not.
func (m *member) differs() string {
	if m.outdated != "" && m.resize != "" {
		return m.resize + " and " + m.outdated
	}
	return m.resize + m.outdated
}

// examine finds what concerns the i-th member alone.
func (s *sets) examine(i int) {
	m := &s.members[i]
	m.uncustomized = s.facts.uncustomized(m, i)
	if s.facts.Group.Spec.Readiness.Probes() && m.Power == plan.PoweredOn { // it is asked there, so an answer needs no report of its guest
		m.IPs = m.Reached()
	}
	m.ready = s.facts.isReady(m, i) && m.uncustomized == "" && len(m.Untaken) == 0 && s.facts.isAnswering(m, i)
	m.since = s.facts.readySince(m, i)
	s.wake.note(m.haltsUntil)
	m.serving = m.ready && !m.halting() && !s.facts.takenDown(m)
	if m.serving && s.facts.Now.Sub(m.since) < s.facts.policy.MinReady {
		m.serving = false
		s.wake.note(m.since.Add(s.facts.policy.MinReady))
	}
	m.heldUntil = s.facts.heldUntil(m)
	s.wake.note(m.heldUntil)
	s.compare(m)
}

// compare finds how a member differs from the spec.
func (s *sets) compare(m *member) {
	var ages time.Time
	m.outdated, ages = s.facts.cloneDifference(&m.VM)
	s.wake.note(ages)
	m.resize, m.disks = s.facts.sizeDifference(&m.VM), s.facts.disksDue(m)
}

// isReady reports whether a member is ready, as far as readiness.check goes. What Tools have reported
// since the VM was powered on stands while they are silent. A guest that was given addresses has to report some, so that an update
// does not continue before they can be compared; one that is ready already stays so.
func (f *facts) isReady(m *member, i int) bool {
	if m.duplicate || !m.Reachable || m.Power != plan.PoweredOn || m.Question != "" {
		return false
	}
	switch f.policy.Check {
	case v1alpha1.ReadyToolsRunning:
		return m.HasReported()
	case v1alpha1.ReadyGuestIP:
		return len(m.IPs) > 0
	}
	return len(m.Given()) == 0 || len(m.IPs) > 0 || f.wasReady(m, i)
}

// readySince returns when the member's readiness last changed. The status keeps that time, as a Pod's Ready condition does. If the status is
// lost or stale, the server waits longer, never shorter.
func (f *facts) readySince(m *member, i int) time.Time {
	since := sinceWhen(seenReady(f.record(m.MoRef, i), m.ready), seenReady(f.noticed(m.MoRef, i), m.ready))
	if since.IsZero() {
		return f.Now.UTC().Truncate(time.Second)
	}
	return since
}

// record returns the stored status of a VM. It has the VM's index, unless members came or went.
func (f *facts) record(moRef string, i int) *v1alpha1.Member {
	return recordIn(f.Group.Status.Members, moRef, i)
}

// noticed returns the status of a VM as this process planned it last.
func (f *facts) noticed(moRef string, i int) *v1alpha1.Member {
	if f.Noticed == nil {
		return nil
	}
	return recordIn(f.Noticed.Members, moRef, i)
}

func recordIn(all []v1alpha1.Member, moRef string, i int) *v1alpha1.Member {
	if i >= 0 && i < len(all) && all[i].MoRef == moRef {
		return &all[i]
	}
	for i := range all {
		if all[i].MoRef == moRef {
			return &all[i]
		}
	}
	return nil
}

// halting reports whether the member's guest was asked to shut down since the VM was last powered on, and may still do so. Boot
// is vCenter's own time, so no two clocks are compared. An old request is void: the guest did not respond.
func (m *member) halting() bool { return !m.haltsUntil.IsZero() }

// haltsUntil returns until when a VM counts as halting; zero if it does not.
func (f *facts) haltsUntil(vm *plan.VM) time.Time {
	if vm.Power != plan.PoweredOn || vm.Shutdown.At.IsZero() || !plan.SameBoot(vm.Shutdown.Boot, vm.Boot) {
		return time.Time{}
	}
	over := vm.Shutdown.At.Add(f.policy.Shutdown + haltGrace)
	if !f.Now.Before(over) {
		return time.Time{}
	}
	return over
}

// haltGrace is how long after its time-out a guest still counts as halting: in that time the VM is powered off, if the
// member still has to go.
const haltGrace = time.Minute

// takenDown reports whether a step that takes the member down is running or has failed, so that the member's state is uncertain.
// An Unmark counts: another replica may be taking the member down for that mark. Unmark waits for that, but
// one that failed may have written without waiting.
func (f *facts) takenDown(m *member) bool {
	p := f.Pending[m.name]
	if p.MoRef != "" && p.MoRef != m.MoRef { // another VM had that name
		return false
	}
	return p.Op.TakesDown() && (p.State == plan.Running || !p.Fault.Untried) || p.Tried.TakesDown()
}

// sizeDifference says how a VM's size differs from the spec.
func (f *facts) sizeDifference(vm *plan.VM) string {
	var in []string
	if vm.CPU != f.Group.Spec.CPU {
		in = append(in, fmt.Sprintf("%s instead of %d", count(int(vm.CPU), "CPU"), f.Group.Spec.CPU))
	}
	if want := f.Group.MemoryMB(); vm.MemoryMB != want {
		in = append(in, fmt.Sprintf("%d MiB of memory instead of %d", vm.MemoryMB, want))
	}
	if vm.Allocation != f.allocation {
		in = append(in, "other reservations, limits or shares")
	}
	if len(in) == 0 {
		return ""
	}
	return "has " + strings.Join(in, " and ")
}

// cloneDifference says how a VM differs from one cloned now, and when its age will make it differ; zero if that does not matter.
func (f *facts) cloneDifference(vm *plan.VM) (how string, ages time.Time) {
	addresses, _ := plan.AddressesOf(&f.Group.Spec, vm.Ordinal)
	switch {
	case f.revision == "": // what a new clone would be made from is unknown
		return "", time.Time{}
	case vm.Revision != f.revision:
		return f.madeOtherwise(vm), time.Time{}
	case vm.Addresses != plan.AddressText(addresses):
		return "has other addresses than spec.networks gives it now", time.Time{}
	case f.policy.ReplaceOnTemplate && f.templateChanged(vm):
		return "was cloned from an older version of the template", time.Time{}
	}
	tooOld, ages := f.tooOld(vm)
	if tooOld {
		return agedText, time.Time{}
	}
	if disk := plan.DisksOtherwise(&f.Group.Spec, vm.Disks); disk != "" {
		how = "has its disk " + disk + " on another datastore, storagePolicy or provisioning than spec.disks says now"
	}
	return how, ages
}

// agedText says that a member differs from one cloned now in its age alone.
const agedText = "is as old as update.maxAgeSeconds lets it become"

// madeOtherwise says what a VM of another revision was cloned from. Where the template is the only field in the spec that enters the
// revision, it is the template, unless the VM's stamp names the same one: then the spec has lost a field.
func (f *facts) madeOtherwise(vm *plan.VM) string {
	template := f.Group.Spec.Template
	if vm.Template != template && f.revision == plan.Revision(&v1alpha1.VmGroupSpec{Template: template}) {
		return "was cloned from another template"
	}
	return "was cloned from another revision of the spec"
}

// templateChanged reports whether the template with that name is another than the VM was cloned from, or has other disks.
func (f *facts) templateChanged(vm *plan.VM) bool {
	now := &f.State.Template
	return vm.Revision == f.revision && f.revision != "" && now.Fingerprint != "" && vm.Fingerprint != "" && vm.Fingerprint != now.Fingerprint
}
