package planner_test

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// BenchmarkPlanOfAThousandMembers makes plans for the largest group: a settled one, and one at the beginning of a roll. If its ns/op are more
// than a hundred times those of a group of ten, the time of a plan grows faster than the group.
func BenchmarkPlanOfAThousandMembers(b *testing.B) {
	up := func(n int32) plan.Observed {
		o := observed(n)
		o.State.Folder = "group-v7"
		for range 2 {
			for _, a := range planner.Make(o).Actions {
				plan.Apply(&o, a)
			}
		}
		o.Group.Status = planner.Make(o).Status
		return o
	}
	measure := func(b *testing.B, o plan.Observed, busy bool) {
		for b.Loop() {
			if r := planner.Make(o); len(r.Actions) > 0 != busy {
				b.Fatal(r.Status.LastMessage)
			}
		}
	}
	b.Run("settled, of ten", func(b *testing.B) { measure(b, up(10), false) })
	b.Run("settled", func(b *testing.B) { measure(b, up(1000), false) })
	b.Run("rolling", func(b *testing.B) {
		o := up(1000)
		o.Group.Spec.Template = "another"
		measure(b, o, true)
	})
}
