package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// steps are what is wanted next, and what blocks it.
type steps struct {
	*decision
	wanted    []step         // the steps that are wanted, started or not
	stepOf    map[string]int // their indices, by the key of the member
	waitCall  bool
	waitDisks bool     // a member goes when the status lists its disks
	adoption  []string // what keeps entries of spec.adopt from being carried out
	faults    []named  // what blocks, by member
	// cloneFaults are those faults that keep members from being cloned until an operator acts.
	cloneFaults []named
	diskFaults  []named // those that keep disks from being added or growing, likewise
}

// stepsOf finds the steps towards exactly the desired number of members, all as the spec says, all ready. The ordinals are
// a set, not 0 … n-1: existing members stay, and new ones take the lowest free ordinals.
func stepsOf(d *decision) *steps {
	v := &steps{decision: d}
	if v.blockedBy != nil {
		return v
	}
	if v.stuck != nil {
		v.faults = append(v.faults, named{Fault: *v.stuck})
	}
	v.faults = append(v.faults, v.misnamed...)
	v.settleDuplicates()
	v.setRules()
	for i := range v.members {
		for _, need := range v.members[i].needs {
			memberSteps[need.what](v, &v.members[i], need.why)
		}
	}
	v.fill()
	v.keepStandby()
	v.tellStaying()
	v.keepInQuarantine()
	v.collectFaults()
	return v
}

// memberSteps plan the next step of a member, from what it needs and what its VM is now. Of two steps for one member the first counts;
// a duplicate has its step before (settleDuplicates).
//
//	what it needs     what its VM is now                            its next step
//	----------------  --------------------------------------------  ------------------------------------------------
//	needsUnmark       any                                           Unmark
//	needsPromotion    on                                            PowerOn, which promotes it
//	needsRemoval      not marked                                    Mark; of one that is replaced, its successor first
//	needsRemoval      marked, its preconditions passed              ShutdownGuest, PowerOff, DeleteDisks,
//	                                                                then Quarantine or Destroy (remove)
//	needsAdoption     in its former folder, or with its former name Move, Rename
//	needsReset        on                                            Reset
//	needsSize         off, or on where it can grow                  Reconfigure
//	needsSize         on, its turn                                  Mark; then ShutdownGuest or PowerOff
//	needsData         off                                           SetDisks
//	needsPreparation  off                                           Prepare
//	needsPower        off, and the DRS rules are set, if required   PowerOn
//	needsTags         any                                           Prepare
//	needsDisks        any                                           SetDisks
var memberSteps = [allNeeds]func(v *steps, m *member, why string){
	needsUnmark:      (*steps).unmark,
	needsPromotion:   (*steps).promoteRunning,
	needsRemoval:     (*steps).removeChosen,
	needsAdoption:    (*steps).finishAdoption,
	needsReset:       (*steps).reset,
	needsSize:        (*steps).resizeInPlace,
	needsData:        (*steps).giveData,
	needsPreparation: (*steps).prepareFirst,
	needsPower:       (*steps).powerOn,
	needsTags:        (*steps).prepareMember,
	needsDisks:       (*steps).setDisks,
}

// giveData gives a member its persistent disks, before it is powered on.
func (v *steps) giveData(m *member, why string) {
	m.begins(starting, v.setDisksOf(m, why))
}

// powerOn powers a member on that should be on. One that was made for another spec and never prepared is to go.
func (v *steps) powerOn(m *member, why string) {
	goesOn := true
	switch {
	case !v.startable(m), v.awaitsRules():
	case m.Standby:
		goesOn = v.act(v.promotion(m, why))
	default:
		goesOn = v.act(plan.Action{Op: plan.PowerOn, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, Reason: why})
	}
	m.begins(starting, goesOn)
}

// act adds an action unless its member already has one, planned or pending: there is never more than one. As long as the action
// is wanted, the status tells why its last try failed; act then returns false.
func (v *steps) act(a plan.Action) (goesOn bool) {
	if _, has := v.stepOf[a.VM]; has {
		return true
	}
	if v.stepOf == nil {
		v.stepOf = map[string]int{}
	}
	v.stepOf[a.VM] = len(v.wanted)
	p, pending := v.Pending[a.VM]
	asks := v.asks(a.MoRef)
	failed := !asks && p.Fault.Reason != "" && p.Op == a.Op
	if failed {
		v.faults = append(v.faults, named{Who: a.VM, Fault: p.Fault})
	}
	s := step{Action: a, starts: !asks && (!pending || p.State == plan.Due || p.Lets(a)), blocked: asks || failed}
	v.wanted = append(v.wanted, s)
	return !s.blocked
}

// step is a step that is wanted. starts: it can be started now. blocked: it failed the last time, or its VM waits for an answer.
type step struct {
	plan.Action
	starts, blocked bool
}

// actions are the steps that can be started now, by rank.
func (v *steps) actions() (all []plan.Action) {
	for i := range v.wanted {
		if v.wanted[i].starts {
			all = append(all, v.wanted[i].Action)
		}
	}
	plan.SortByRank(all)
	return all
}

// failing counts the members whose steps are blocked.
func (v *steps) failing() (n int) {
	for i := range v.wanted {
		n += int(oneIf(v.wanted[i].blocked && v.wanted[i].MemberKey()))
	}
	if v.Finalizing {
		n += len(v.missingNames())
	}
	return n
}

// collectFaults adds what blocks members that no action is wanted for.
func (v *steps) collectFaults() {
	v.collectStalled()
	v.faults = append(v.faults, v.failedCustomizations(false)...)
	v.faults = append(v.faults, v.untaken()...)
	if v.Related.Fault != nil && len(v.cloneFaults) == 0 { // reported before it blocks: no member could be recreated
		v.blockClone("", *v.Related.Fault)
	}
	for _, ordinal := range slices.Concat(v.arriving, v.standbyComing) {
		name := plan.MemberName(v.Group.Name, ordinal)
		if f := v.Pending[name].Fault; f.Reason != "" && !slices.ContainsFunc(v.faults, func(n named) bool { return n.Who == name }) {
			v.faults = append(v.faults, named{Who: name, Fault: f})
		}
	}
	v.holdMissing()
	if v.suppressed != nil {
		v.faults = append(v.faults, named{Fault: *v.suppressed})
	}
	if v.suspended != "" {
		v.faults = append(v.faults, named{Fault: plan.Fault{Reason: plan.ReasonHealingSuspended, NeedsOperator: true, Message: "healing is suspended: " + v.suspended}})
	}
	if names := v.publisher().Conflicting(); len(names) > 0 {
		v.faults = append(v.faults, named{Fault: plan.Fault{Reason: plan.ReasonForeignObject, NeedsOperator: true, Message: children.ConflictText(names)}})
	}
}
