package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// reconcile finds the steps towards exactly the desired number of members, all as the spec says, all ready. The ordinals are
// a set, not 0 … n-1: existing members stay, and new ones take the lowest free ordinals.
//
// Earlier decisions bind later ones: which members differ, which are unwell, which go, and then what is done to
// those that stay. Of two steps for one member the first counts.
func (v *view) reconcile() {
	v.settleDuplicates()
	v.promoteRunning()
	order := v.victims()
	v.findSuccessors()
	v.findChanges(order)
	v.heal(order)
	v.cloneElsewhere(order)
	slack := v.selectForRemoval(order)
	v.chooseCycles(order, slack)
	v.removeChosen()
	v.finishAdoption()
	v.restart()
	v.setRules()
	v.resizeInPlace(order, slack)
	v.powerOn()
	v.prepareLater()
	v.setDisks()
	v.fill()
	v.keepStandby()
	v.tellStaying()
	v.keepInQuarantine()
	v.collectFaults()
}

func (v *view) powerOn() {
	for i := range v.members {
		m := &v.members[i]
		if m.leaves || m.Marked || m.duplicate || m.contested || m.Power == plan.PoweredOn || !m.Reachable {
			continue
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
	v.collectStandstills()
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
		v.faults = append(v.faults, named{Fault: plan.Fault{Reason: plan.ReasonHealingSuspended, Person: true, Message: "healing is suspended: " + v.suspended}})
	}
	if names := v.publisher().Conflicting(); len(names) > 0 {
		v.faults = append(v.faults, named{Fault: plan.Fault{Reason: plan.ReasonForeignObject, Person: true, Message: children.ConflictText(names)}})
	}
}
