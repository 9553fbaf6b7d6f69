package planner_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// plan.ArgsOf treats an argument of another type as if the action had none.
func TestEveryStepHasTheArgumentsOfItsKind(t *testing.T) {
	types := map[plan.Op]plan.Args{plan.Clone: plan.CloneArgs{}, plan.Adopt: plan.AdoptArgs{}, plan.Reconfigure: plan.ResizeArgs{},
		plan.Move: plan.MoveArgs{}, plan.CreateQuarantine: plan.MoveArgs{}, plan.Rename: plan.RenameArgs{}, plan.Mark: plan.MarkArgs{},
		plan.PowerOn: plan.PowerOnArgs{}, plan.PowerOff: plan.PowerOffArgs{}, plan.DeleteDisks: plan.DeleteDisksArgs{},
		plan.Destroy: plan.DestroyArgs{}, plan.RemoveFolder: plan.ConfirmArgs{}, plan.ConfirmGone: plan.ConfirmArgs{},
		plan.CreateFolder: &plan.Details{}, plan.Prepare: &plan.Details{}, plan.SetDisks: &plan.Details{}, plan.SetRules: &plan.Details{}}
	fits := func(a plan.Action) bool {
		return a.Args == nil || fmt.Sprintf("%T", a.Args) == fmt.Sprintf("%T", types[a.Op])
	}
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		for _, a := range planner.Make(o).Actions {
			if !fits(a) {
				t.Fatalf("%s has %T", a.Op, a.Args)
			}
			if (a.Op == plan.RemoveFolder || a.Op == plan.ConfirmGone) && !plan.ArgsOf[plan.ConfirmArgs](a.Args).Since.Equal(o.FinalizingSince) {
				t.Fatalf("%s has %+v for a group that ended at %s", a.Op, a.Args, o.FinalizingSince)
			}
			if successor := plan.ArgsOf[plan.MarkArgs](a.Args).Successor; successor != nil && !fits(*successor) {
				t.Fatalf("the successor of a %s has %T", a.Op, successor.Args)
			}
		}
	})
}
