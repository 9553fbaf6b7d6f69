package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// reconcile finds the steps towards exactly the desired number of members, all as the spec says, all ready. The ordinals are
// a set, not 0 … n-1: existing members stay, and new ones take the lowest free ordinals.
func (v *view) reconcile() {
	v.decide()
	v.settleDuplicates()
	v.withdrawMarks()
	v.setRules()
	for i := range v.members {
		for _, step := range memberSteps {
			step(v, &v.members[i])
		}
	}
	v.fill()
	v.keepStandby()
	v.tellStaying()
	v.keepInQuarantine()
	v.collectFaults()
}

// decide finds what becomes of the members. Earlier decisions bind later ones: which differ from the spec, which are unhealthy, which
// go, and which are powered off for a while. The verdict that follows is in the table at verdictOf.
func (v *view) decide() {
	order := v.victims()
	v.findSuccessors()
	v.findChanges(order)
	v.heal(order)
	v.cloneElsewhere(order)
	v.selectForRemoval(order)
	v.chooseCycles(order)
}

// memberSteps are the steps of a member, each from what becomes of it and what its VM is now. Of two steps for one member the first counts;
// a duplicate has its step before (settleDuplicates).
//
//	what becomes of it               what its VM is now                            its next step
//	-------------------------------  --------------------------------------------  ------------------------------------------------
//	it stays                         a standby member that somebody powered on     PowerOn, which promotes it
//	it goes                          not marked                                    Mark; of one that is replaced, its successor first
//	it goes                          marked, its preconditions passed              ShutdownGuest, PowerOff, DeleteDisks,
//	                                                                               then Quarantine or Destroy (remove)
//	it stays                         adopted, in its former folder or with its     Move, Rename
//	                                 former name
//	it is restarted                  on                                            Reset
//	it is resized                    off, or on where it can grow                  Reconfigure
//	it is resized                    on, its turn                                  Mark; then ShutdownGuest or PowerOff
//	it stays                         off, lacks its persistent disks               SetDisks
//	it stays                         off, never prepared                           Prepare
//	it stays                         off                                           PowerOn
//	it stays                         prepared for another spec                     Prepare
//	it stays                         has other disks                               SetDisks
var memberSteps = []func(*view, *member){
	(*view).promoteRunning,
	(*view).removeChosen,
	(*view).finishAdoption,
	(*view).restart,
	(*view).resizeInPlace,
	(*view).powerOn,
	(*view).prepareLater,
	(*view).setDisks,
}

// powerOn plans the next step of a member that is off and should be on.
func (v *view) powerOn(m *member) {
	if m.leaves || m.Marked || m.duplicate || m.contested || m.Power == plan.PoweredOn || !m.Reachable {
		return
	}
	goesOn := true
	switch {
	case m.unprepared() && !v.preparable(m): // it is to go
	case v.lacksData(m):
		goesOn = v.setDisksOf(m, "its persistent disks, before its "+nextPowerOn(m))
	case m.unprepared():
		goesOn = v.prepareMember(m, "prepared before its "+nextPowerOn(m))
	case v.awaitsRules():
	case m.Standby:
		goesOn = v.act(v.promotion(m, runningText))
	default:
		goesOn = v.act(plan.Action{Op: plan.PowerOn, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef,
			Reason: m.Power.Text() + "; should be on"})
	}
	m.begins(starting, goesOn)
}

// nextPowerOn is what a step comes before.
func nextPowerOn(m *member) string {
	if m.unprepared() {
		return "first power-on"
	}
	return "next power-on"
}

// act adds an action unless its member already has one, planned or pending: there is never more than one. As long as the action
// is wanted, the status tells why its last try failed; act then returns false.
func (v *view) act(a plan.Action) (goesOn bool) {
	if _, has := v.stepOf[a.VM]; has {
		return true
	}
	if v.stepOf == nil {
		v.stepOf = map[string]int{}
	}
	v.stepOf[a.VM] = len(v.steps)
	p, pending := v.Pending[a.VM]
	asks := v.asks(a.MoRef)
	failed := !asks && p.Fault.Reason != "" && p.Op == a.Op
	if failed {
		v.faults = append(v.faults, named{Who: a.VM, Fault: p.Fault})
	}
	s := step{Action: a, starts: !asks && (!pending || p.State == plan.Due || p.Lets(a)), blocked: asks || failed}
	v.steps = append(v.steps, s)
	return !s.blocked
}

// step is a step that is wanted. starts: it can be started now. blocked: it failed the last time, or its VM waits for an answer.
type step struct {
	plan.Action
	starts, blocked bool
}

// actions are the steps that can be started now, by rank.
func (v *view) actions() (all []plan.Action) {
	for i := range v.steps {
		if v.steps[i].starts {
			all = append(all, v.steps[i].Action)
		}
	}
	plan.SortByRank(all)
	return all
}

// failing counts the members whose steps are blocked.
func (v *view) failing() (n int) {
	for i := range v.steps {
		n += int(oneIf(v.steps[i].blocked && v.steps[i].MemberKey()))
	}
	if v.Finalizing {
		n += len(v.missingNames())
	}
	return n
}

// collectFaults adds what blocks members that no action is wanted for.
func (v *view) collectFaults() {
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
