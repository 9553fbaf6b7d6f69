// This file has the second stage of a plan, which classify makes.

package planner

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// sets are the VMs of a group, and the ordinals without a VM. They are empty while vCenter's state is unknown.
type sets struct {
	facts               *facts
	members             []member               // by ordinal and moRef, without standby members
	standby             []member               // standby members, by ordinal and moRef
	quarantined         []member               // VMs that were members, and are kept in quarantine
	free                []*member              // ordinals whose VM is being created
	asking              []*member              // VMs of all three kinds that wait for an operator's answer
	notFound            []notFoundMember       // members in the status that vCenter neither shows nor has reported as removed
	notFoundQuarantined []v1alpha1.Quarantined // VMs in quarantine, likewise
	// notFoundStandby are standby members, likewise. standbyComing are the ordinals of standby members that are being cloned.
	notFoundStandby  []v1alpha1.StandbyMember
	standbyComing    []int32
	ordinals         int               // number of different ordinals of members and notFound
	arriving         []int32           // ordinals of members that are being cloned or adopted
	ordinalsNotFound int               // number of those that only notFound has
	gone             []v1alpha1.Member // members in the status that vCenter reported as removed
	givenUp          []notFoundMember  // missing members that were given up, and whose ordinal no other VM has
	replaced         []v1alpha1.Member // missing members that were given up, and whose ordinal another VM has
	// unseen and unseenStandby are the ordinals of notFound and notFoundStandby, for look-ups: a status can have thousands.
	unseen, unseenStandby map[int32]bool
	// held are the ordinals that strays hold.
	held map[int32]bool
	// draining: the members of a deleted group are being drained.
	draining bool
	wake     wake
	// suppressed is why failed probes don't make members unready; nil if they do.
	suppressed *plan.Fault
}

// notFoundMember is a member that vCenter does not show and that is not gone: it is unconfirmed, or missing.
type notFoundMember struct {
	v1alpha1.Member
	// left: vCenter no longer has it, or is being asked. missing: vCenter no longer has it, and the message says why.
	left, missing bool
}

// hidden reports whether vCenter neither shows a member nor reports that it left.
func (a *notFoundMember) hidden() bool { return !a.left && !a.missing }

// each yields VMs of several sets.
func each(sets ...[]member) iter.Seq[*member] {
	return func(yield func(*member) bool) {
		for _, members := range sets {
			for i := range members {
				if !yield(&members[i]) {
					return
				}
			}
		}
	}
}

// all yields the members and the standby members, which are members to be off. vms also yields the VMs in quarantine.
func (s *sets) all() iter.Seq[*member] { return each(s.members, s.standby) }

func (s *sets) vms() iter.Seq[*member] { return each(s.members, s.standby, s.quarantined) }

// shown is how many VMs of the group vCenter shows.
func (s *sets) shown() int { return len(s.members) + len(s.standby) + len(s.quarantined) }

// exist returns how many VMs of the group exist.
func (s *sets) exist() int {
	return s.shown() + len(s.notFound) + len(s.notFoundQuarantined) + len(s.notFoundStandby)
}

// isClaimed reports whether a member or a standby member has the ordinal, whether or not vCenter shows it, or a standby member is being created with it.
func (s *sets) isClaimed(ordinal int32) bool {
	return s.has(ordinal) || s.isNotFound(ordinal) || s.isStandby(ordinal)
}

// has reports whether vCenter shows a member with that ordinal.
func (s *sets) has(ordinal int32) bool {
	_, found := slices.BinarySearchFunc(s.members, ordinal, func(m member, o int32) int { return cmp.Compare(m.Ordinal, o) })
	return found
}

// isNotFound reports whether a member with that ordinal is recorded that vCenter neither shows nor has reported as removed.
func (s *sets) isNotFound(ordinal int32) bool {
	return s.unseen[ordinal]
}

// isStandby reports whether a standby member has the ordinal, or is being created with it.
func (s *sets) isStandby(ordinal int32) bool {
	return slices.ContainsFunc(s.standby, func(m member) bool { return m.Ordinal == ordinal }) || s.unseenStandby[ordinal] ||
		slices.Contains(s.standbyComing, ordinal)
}

// oneIf is for counting.
func oneIf(is bool) int32 {
	if is {
		return 1
	}
	return 0
}

// membersText says how many members exist and should exist. It is true until the new member exists.
func (s *sets) membersText() string {
	return fmt.Sprintf("too few members: %d of %d", s.ordinals, s.facts.want)
}
