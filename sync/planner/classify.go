// This file sorts the VMs of a group, and the ordinals, into sets.

package planner

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// sets are the VMs of a group, and the ordinals that have none. They are empty unless vCenter's facts are known.
type sets struct {
	*facts
	members             []member               // the VMs that are members, by ordinal and moRef, without the standby ones
	standby             []member               // the standby members, likewise
	quarantined         []member               // the VMs that were, and are kept for a while
	free                []*member              // the ordinals that no VM has, and that are to have one
	asking              []*member              // the VMs, of both kinds, that wait for an operator's answer
	notFound            []notFoundMember       // recorded in the status, not seen, and not confirmed gone
	notFoundQuarantined []v1alpha1.Quarantined // the same of those in quarantine
	// notFoundStandby are the standby members that are recorded, not seen, and not confirmed gone; standbyComing are the ordinals of those
	// that are being made.
	notFoundStandby  []v1alpha1.StandbyMember
	standbyComing    []int32
	ordinals         int               // how many different ordinals members and notFound hold
	arriving         []int32           // ordinals that are about to be members: being cloned, adopted or brought back
	ordinalsNotFound int               // of these, those that only notFound members hold
	gone             []v1alpha1.Member // the recorded members that are gone for certain
	givenUp          []notFoundMember  // the missing members that were given up, and of which no other VM has the ordinal
	// suppressed is why the members' answers are not believed; nil if they are.
	suppressed *plan.Fault
}

func classify(f *facts) *sets {
	v := &sets{facts: f}
	if !v.sighted {
		return v
	}
	v.sortMembers()
	v.sortNotFound()
	v.ordinals, v.ordinalsNotFound = v.countOrdinals()
	v.judgeStandby()
	v.shadow()
	v.sortArriving()
	return v
}

func (v *sets) sortMembers() {
	v.members = make([]member, 0, len(v.State.VMs))
	for _, vm := range v.State.VMs {
		if m := (member{VM: vm, name: plan.MemberName(v.Group.Name, vm.Ordinal)}); vm.Quarantined.IsZero() {
			v.members = append(v.members, m)
		} else {
			v.quarantined = append(v.quarantined, m)
		}
	}
	inOrder := func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), strings.Compare(a.MoRef, b.MoRef))
	}
	slices.SortFunc(v.members, inOrder)
	slices.SortFunc(v.quarantined, inOrder)
	v.splitStandby()
	v.findDuplicates(v.members)
	v.findDuplicates(v.standby)
	v.sortAsking()
	for i := range v.members {
		v.judge(i)
	}
	v.findSuppressed()
}

func (v *sets) sortArriving() {
	for _, p := range slices.SortedFunc(maps.Values(v.Pending), func(a, b plan.Pending) int { return cmp.Compare(a.Ordinal, b.Ordinal) }) {
		if (p.Op == plan.Clone || p.Op == plan.Adopt) && p.State == plan.Running && !v.has(p.Ordinal) && !v.isNotFound(p.Ordinal) && !v.isStandby(p.Ordinal) {
			m := v.vacancy("it is being made")
			v.assign(m, p.Ordinal)
			if m.Standby = p.Standby && !v.Finalizing; m.Standby {
				v.standbyComing = append(v.standbyComing, p.Ordinal)
				continue
			}
			v.arriving = append(v.arriving, p.Ordinal)
			if p.Op == plan.Clone && p.Fault.Reason == "" {
				m.begins(cloning, true)
			}
		}
	}
}

// has reports whether vCenter shows a member with that ordinal.
func (v *sets) has(ordinal int32) bool {
	_, found := slices.BinarySearchFunc(v.members, ordinal, func(m member, o int32) int { return cmp.Compare(m.Ordinal, o) })
	return found
}

func (v *sets) isNotFound(ordinal int32) bool {
	return slices.ContainsFunc(v.notFound, func(m notFoundMember) bool { return m.Ordinal == ordinal })
}

// taken reports whether no new member can have that ordinal: a member has it or is being made, or a VM on its way to
// quarantine still has the name.
func (v *sets) taken(ordinal int32) bool {
	return v.has(ordinal) || v.isNotFound(ordinal) || v.isStandby(ordinal) || slices.Contains(v.arriving, ordinal) ||
		slices.ContainsFunc(v.quarantined, func(q member) bool { return q.Ordinal == ordinal && v.blocksName(&q) })
}
