// This file runs the planner ahead: it makes the plan again on a model, after each round of steps, until nothing is left to do.

package planner

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A forecast is bounded: the rest of a long roll continues like its beginning.
const (
	maxRounds = 200
	maxSteps  = 2000
	// plansForAStep bounds the plans in which nothing is done but wait.
	plansForAStep = 5
)

// Forecast returns the steps that lead from an observation to the desired state if all succeed, by making the plan again
// after each round. It assumes that what is pending succeeds and that guests boot, halt and answer quickly, and it ignores spec.paused.
// It ends where a plan has no action and waits for nothing: at the goal, or where something blocks the group. A forecast
// that is cut off sets More.
func Forecast(o plan.Observed) plan.Outlook { return ForecastUpTo(o, maxSteps) }

// ForecastUpTo is the beginning of a forecast: at most so many steps. The number of plans is bounded, too, so that a large group takes no long
// time.
func ForecastUpTo(o plan.Observed, most int) (f plan.Outlook) {
	o.State.VMs = slices.Clone(o.State.VMs)
	o.Group = o.Group.DeepCopy()
	o.Group.Spec.Paused = false
	o.AgesAt = o.Now
	for _, p := range o.Pending {
		if p.Op == plan.Clone && p.State == plan.Running {
			addresses, _ := plan.AddressesOf(&o.Group.Spec, p.Ordinal)
			plan.Apply(&o, plan.Action{Op: plan.Clone, Key: plan.MemberName(o.Group.Name, p.Ordinal), Ordinal: p.Ordinal, Args: plan.CloneArgs{CPU: o.Group.Spec.CPU, MemoryMB: o.Group.MemoryMB(), Revision: plan.RevisionWith(&o.Group.Spec, o.Related.Digest), Folder: o.State.Folder, Details: &plan.Details{Home: plan.HomeOf(&o.Group.Spec).String(), AddressText: plan.AddressText(addresses), Prepared: plan.PreparationOf(&o.Group.Spec)}}, Generation: o.Group.Generation})
		}
	}
	o.Pending = nil
	plan.AnswerSoon(&o)
	var waited time.Duration
	for round, plans := 1, 0; round <= maxRounds && len(f.Steps) < most && plans < plansForAStep*most; plans++ {
		o.Called = o.Now
		r := Make(o)
		o.Group.Status = r.Status
		if o.DrainTime() > 0 {
			plan.Show(&o, r.Children)
		}
		if len(r.Actions) == 0 {
			waited += r.Wake
			if r.Wake == 0 || r.Finalized || waited > maxWaiting {
				f.Blocked = blockedBy(&o, &r, len(f.Steps) > 0)
				return f
			}
			o.Now = o.Now.Add(r.Wake)
			continue
		}
		for _, a := range r.Actions {
			f.Steps = append(f.Steps, plan.Step{Round: round, After: waited, Action: a})
			plan.Apply(&o, a)
		}
		waited = 0
		round++
	}
	f.Steps, f.More = f.Steps[:min(len(f.Steps), most)], true
	return f
}

// blockedBy is what the last plan of a forecast waits for. A group that needs an operator says so. One that waits for something else, such
// as the first reading of the inventory, is blocked if no step could be foreseen, unless it is on its way to be gone.
func blockedBy(o *plan.Observed, r *plan.Result, moved bool) plan.Fault {
	waits := !moved && !o.Finalizing && r.Status.Phase != v1alpha1.PhaseRunning
	if r.Status.Phase != v1alpha1.PhaseError && !waits {
		return plan.Fault{}
	}
	f := plan.Fault{Reason: string(r.Status.Phase), Message: r.Status.LastMessage}
	if ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		f.Reason = ready.Reason
	}
	return f
}

// maxWaiting is how long a forecast looks ahead while nothing is done: longer than any number of seconds in the spec.
const maxWaiting = 62 * 24 * time.Hour
