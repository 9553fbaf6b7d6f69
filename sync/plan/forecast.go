package plan

import (
	"maps"
	"slices"
)

// Step is an action in a forecast. All steps of one round can run side by side; a round begins when the one
// before has ended.
type Step struct {
	Round int
	Action
}

// maxRounds bounds a forecast; a whole life (folder, clone, power on; mark, power off, destroy, folder, confirm)
// takes fewer.
const maxRounds = 16

// Forecast says which steps lead from an observation to the wanted state if every one succeeds, by making the
// plan again after each round. What is pending is taken as about to succeed. It ends where a plan has no action:
// at the goal, or at what holds the group back.
func Forecast(o Observed) []Step {
	o.Sight.VMs = slices.Clone(o.Sight.VMs)
	for _, p := range o.Pending {
		if p.Op == Clone && p.State == Running {
			Apply(&o, Action{Op: Clone, VM: MemberName(o.Group.Name, p.Ordinal), Ordinal: p.Ordinal, CPU: o.Group.Spec.CPU,
				MemoryMB: o.Group.MemoryMB(), Revision: Revision(&o.Group.Spec), Generation: o.Group.Generation})
		}
	}
	o.Pending, o.Called = nil, o.Now
	var steps []Step
	for round := 1; round <= maxRounds; round++ {
		r := Make(o)
		if len(r.Actions) == 0 {
			break
		}
		for _, a := range r.Actions {
			steps = append(steps, Step{Round: round, Action: a})
			Apply(&o, a)
		}
	}
	return steps
}

// Apply changes an observation as the success of an action would: it is the model of vCenter that forecasts and
// the property tests share. The VMs' slice is changed in place.
func Apply(o *Observed, a Action) {
	at := slices.IndexFunc(o.Sight.VMs, func(vm VM) bool { return vm.MoRef == a.MoRef })
	switch a.Op {
	case CreateFolder:
		o.Sight.Folder = "(new folder)"
	case Clone:
		o.Sight.VMs = append(o.Sight.VMs, VM{
			MoRef: "(new " + a.VM + ")", Name: a.VM, Ordinal: a.Ordinal, Revision: a.Revision, Generation: a.Generation,
			Power: PoweredOff, Reachable: true, CPU: a.CPU, MemoryMB: a.MemoryMB, VCenter: o.Sight.VCenter,
		})
	case RemoveFolder:
		o.Sight.Folder = ""
	case ConfirmGone:
		o.Emptied = true
		o.Children = maps.Clone(o.Children)
		clear(o.Children)
	}
	if at < 0 {
		return
	}
	switch vm := &o.Sight.VMs[at]; a.Op {
	case PowerOn:
		vm.Power = PoweredOn
	case PowerOff:
		vm.Power = PoweredOff
	case Mark, Unmark:
		vm.Marked, vm.Generation = a.Op == Mark, max(vm.Generation, a.Generation)
	case Destroy:
		gone := vm.MoRef
		o.Sight.VMs = slices.Delete(o.Sight.VMs, at, at+1)
		o.Sight.Gone = append(slices.Clone(o.Sight.Gone), gone)
	}
}
