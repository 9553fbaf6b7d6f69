package planner

import (
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Two VMs can claim one ordinal although the name is a lock: when an admin renames a new member before another
// replica of the server has seen it, or restores a backup. A VM that was never powered on, as vCenter's events tell, holds
// nothing of value and goes. If that is not known of any of them, an operator decides.

// resolveTwins finds, for each ordinal that several VMs claim, one to remove if it was never powered on.
func (v *view) resolveTwins() {
	for i := 0; i < len(v.members); {
		end := i + 1
		for end < len(v.members) && v.members[end].Ordinal == v.members[i].Ordinal {
			end++
		}
		claimants := slices.DeleteFunc(slices.Clone(v.members[i:end]), func(m member) bool { return m.yields })
		if len(claimants) > 1 {
			v.resolve(claimants)
		}
		i = end
	}
}

// resolve keeps the VM that is on, or the first one, and plans the removal of another that is off. All replicas of
// the server decide alike, from vCenter's facts alone.
func (v *view) resolve(claimants []member) {
	keep, goes := 0, -1
	for i := range claimants {
		if claimants[i].Power == plan.PoweredOn {
			keep = i
			break
		}
	}
	for i := range claimants {
		if i != keep && claimants[i].Reachable && claimants[i].Power == plan.PoweredOff && claimants[i].Question == "" {
			goes = i
		}
	}
	if goes < 0 {
		v.faults = append(v.faults, named{who: claimants[0].name, Fault: twinsFault(claimants)})
		return
	}
	m := &claimants[goes]
	goesOn := v.remove(m, twin, fmt.Sprintf("duplicate: %d VMs claim to be this member; %s is removed if it was never powered on", len(claimants), m.VM.Name))
	if p := v.Pending[m.name]; p.Fault.Reason == plan.ReasonDuplicateMember { // it was powered on: vCenter's events say so, or don't rule it out
		v.faults[len(v.faults)-1].Fault = twinsFault(claimants)
	}
	v.leaving += int(oneIf(goesOn))
}

func twinsFault(claimants []member) plan.Fault {
	var names []string
	for i := range claimants {
		names = append(names, fmt.Sprintf("%s (%s)", claimants[i].VM.Name, claimants[i].MoRef))
	}
	return plan.Fault{Reason: plan.ReasonDuplicateMember, Person: true, Message: fmt.Sprintf(
		"%d VMs claim to be this member: remove all but one of %s", len(claimants), strings.Join(names, ", "))}
}
