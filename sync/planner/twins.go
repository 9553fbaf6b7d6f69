package planner

import (
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Two VMs can claim one ordinal although the name is a lock: when an admin renames a new member before another
// replica of the server has seen it, or restores a backup; or when a member vanishes while another replica's clone of it, called for
// before it was made, is still on its way. A VM that was never powered on, as vCenter's events tell, holds nothing of value and
// goes, unless it has persistent disks of the ordinal: others wrote to them, and another replica, which sees no twin (any more), may be
// powering it on, while the removal detaches them. If that is not known of any of them, an operator decides.

// resolveTwins finds, for each ordinal that several VMs claim, one to remove if it was never powered on.
func (v *view) resolveTwins() {
	v.resolveTwinsAmong(v.members)
	v.resolveTwinsAmong(v.standby)
}

// resolveTwinsAmong does so for VMs that are in order.
func (v *view) resolveTwinsAmong(members []member) {
	for i := 0; i < len(members); {
		end := i + 1
		for end < len(members) && members[end].Ordinal == members[i].Ordinal {
			end++
		}
		claimants := slices.DeleteFunc(slices.Clone(members[i:end]), func(m member) bool { return m.yields })
		if away := v.vanishedAt(claimants); len(claimants) > 1 || away != nil {
			v.resolve(claimants, away)
		}
		i = end
	}
}

// shadow keeps members that are off from being powered on while another VM of their ordinal, which vCenter does not show, may run.
func (v *view) shadow() {
	for i := range v.members {
		if m := &v.members[i]; m.Power != plan.PoweredOn && v.isUnseen(m.Ordinal) {
			m.duplicate = true
		}
	}
}

// vanishedAt returns the VM that vanished and may run while the only claimant is off; nil if there is none.
func (v *view) vanishedAt(claimants []member) *absent {
	if len(claimants) != 1 || !claimants[0].duplicate {
		return nil
	}
	i := slices.IndexFunc(v.unseen, func(a absent) bool { return a.vanished && a.Ordinal == claimants[0].Ordinal })
	if i < 0 {
		return nil
	}
	return &v.unseen[i]
}

// hasData reports whether a VM has persistent disks.
func hasData(m *member) bool {
	return slices.ContainsFunc(plan.Persistent(m.VM.Disks), func(d plan.MemberDisk) bool { return d.Parted == "" })
}

// resolve keeps the VM that is on, the one that vanished, the one that has persistent disks, or the first one, and plans the removal of another that is off. All
// replicas of the server decide alike, from vCenter's facts alone.
func (v *view) resolve(claimants []member, away *absent) {
	keep, goes := 0, -1
	if away != nil {
		keep = -1
	}
	if with := slices.IndexFunc(claimants, func(m member) bool { return hasData(&m) }); with >= 0 && away == nil {
		keep = with
	}
	if on := slices.IndexFunc(claimants, func(m member) bool { return m.Power == plan.PoweredOn }); on >= 0 {
		keep = on
	}
	for i := range claimants {
		if i != keep && !hasData(&claimants[i]) && claimants[i].Reachable && claimants[i].Power == plan.PoweredOff && claimants[i].Question == "" {
			goes = i
		}
	}
	if goes < 0 {
		v.faults = append(v.faults, named{Who: claimants[0].name, Fault: twinsFault(claimants, away)})
		return
	}
	m := &claimants[goes]
	goesOn := v.remove(m, twin, fmt.Sprintf("duplicate: %d VMs claim to be this member; %s is removed if it was never powered on", len(claimantNames(claimants, away)), m.VM.Name))
	if p := v.Pending[m.name]; p.Fault.Reason == plan.ReasonDuplicateMember { // it was powered on: vCenter's events say so, or don't rule it out
		v.faults[len(v.faults)-1].Fault = twinsFault(claimants, away)
	}
	v.leaving += int(oneIf(goesOn))
}

func twinsFault(claimants []member, away *absent) plan.Fault {
	names := claimantNames(claimants, away)
	return plan.Fault{Reason: plan.ReasonDuplicateMember, Person: true, Message: fmt.Sprintf(
		"%d VMs claim to be this member: remove all but one of %s", len(names), strings.Join(names, ", "))}
}

func claimantNames(claimants []member, away *absent) (names []string) {
	for i := range claimants {
		names = append(names, fmt.Sprintf("%s (%s)", claimants[i].VM.Name, claimants[i].MoRef))
	}
	if away != nil {
		names = append(names, fmt.Sprintf("%s (%s, which vCenter does not have any more)", away.NameInVCenter(), away.MoRef))
	}
	return names
}
