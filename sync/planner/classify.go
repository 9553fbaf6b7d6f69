// This file sorts the VMs and the ordinals of a group into sets, and examines each member.

package planner

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// classify finds the sets.
func classify(f *facts) *sets {
	s := &sets{facts: f, wake: wake{now: f.Now}, unseen: map[int32]bool{}, unseenStandby: map[int32]bool{}, held: map[int32]bool{}}
	if !s.facts.vCenterKnown {
		s.draining = s.drainsAll()
		return s
	}
	s.sortMembers()
	s.draining = s.drainsAll()
	s.sortNotFound()
	s.ordinals, s.ordinalsNotFound = s.countOrdinals()
	s.sortNotFoundStandby()
	s.contestUnseen()
	s.sortArriving()
	s.sortStrays()
	s.sortReturned()
	return s
}

func (s *sets) sortMembers() {
	s.members = make([]member, 0, len(s.facts.State.VMs))
	for _, vm := range s.facts.State.VMs {
		if m := (member{VM: vm, name: plan.MemberName(s.facts.Group.Name, vm.Ordinal), haltsUntil: s.facts.haltsUntil(&vm)}); vm.Quarantined.IsZero() {
			s.members = append(s.members, m)
		} else {
			s.quarantined = append(s.quarantined, m)
		}
	}
	inOrder := func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), strings.Compare(a.MoRef, b.MoRef))
	}
	slices.SortFunc(s.members, inOrder)
	slices.SortFunc(s.quarantined, inOrder)
	s.splitStandby()
	s.facts.findDuplicates(s.members)
	s.facts.findDuplicates(s.standby)
	s.sortAsking()
	for i := range s.members {
		s.examine(i)
	}
	for i := range s.standby {
		s.compare(&s.standby[i])
	}
	s.findSuppressed()
}

// examine finds the facts about the i-th member that depend on no other member.
func (s *sets) examine(i int) {
	m := &s.members[i]
	m.uncustomized = s.facts.uncustomized(m, i)
	if s.facts.Group.Spec.Readiness.Probes() && m.Power == plan.PoweredOn { // where the probe got an answer, even if the guest reports nothing
		m.IPs = m.ServiceAddresses()
	}
	m.ready = s.facts.isReady(m, i) && m.uncustomized == "" && len(m.UnreportedAddresses) == 0 && s.facts.isAnswering(m, i)
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

// compare finds how a member or a standby member differs from the spec.
func (s *sets) compare(m *member) {
	var ages time.Time
	m.outdated, ages = s.facts.cloneDifference(&m.VM)
	s.wake.note(ages)
	m.resize, m.disks = s.facts.sizeDifference(&m.VM), s.facts.disksDue(m)
}

// isReady reports whether a member satisfies readiness.check. What VMware Tools reported since the VM was powered on counts, even while they
// are silent. A guest that was given static addresses has to report some before it is ready, so that an update doesn't continue before the
// addresses are compared. A member that was ready stays ready without them.
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
	return len(m.StaticAddresses()) == 0 || len(m.IPs) > 0 || f.wasReady(m, i)
}

// readySince returns when the member's readiness last changed. The status keeps that time, as a Pod's Ready condition does. If the status is
// lost or stale, the server waits longer, never shorter.
func (f *facts) readySince(m *member, i int) time.Time {
	since := plan.Since(plan.SeenReady(f.Record(m.MoRef, i), m.ready), plan.SeenReady(f.LastPlannedRecord(m.MoRef, i), m.ready))
	if since.IsZero() {
		return f.Now.UTC().Truncate(time.Second)
	}
	return since
}

func (s *sets) sortArriving() {
	for _, p := range slices.SortedFunc(maps.Values(s.facts.Pending), func(a, b plan.Pending) int { return cmp.Compare(a.Ordinal, b.Ordinal) }) {
		if (p.Op == plan.Clone || p.Op == plan.Adopt) && p.State == plan.Running && !s.isClaimed(p.Ordinal) {
			m := vacancy("it is being created")
			m.assign(s.facts.Group.Name, p.Ordinal)
			s.free = append(s.free, m)
			if m.Standby = p.Standby && !s.facts.Finalizing; m.Standby {
				s.standbyComing = append(s.standbyComing, p.Ordinal)
				m.begins(standingBy, true)
				continue
			}
			s.arriving = append(s.arriving, p.Ordinal)
			if p.Op == plan.Clone && p.Fault.Reason == "" {
				m.begins(cloning, true)
			}
		}
	}
}
