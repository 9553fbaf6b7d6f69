package vsphere

import (
	"slices"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestADuplicateIsDestroyedOnlyIfItWasNeverOn(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		destroy := actionOn(plan.Destroy, vm)
		destroy.Args = plan.DestroyArgs{NeverOn: true}
		w.must(w.PowerOn("web-0"))
		if f := p.fault(destroy); f.Reason != plan.ReasonDuplicateMember || f.NeedsOperator {
			t.Errorf("while it is on: %+v", f)
		}
		w.must(w.PowerOff("web-0"))
		if f := p.fault(destroy); f.Reason != plan.ReasonDuplicateMember || f.NeedsOperator {
			t.Errorf("after it was on: %+v", f)
		}
		if !slices.Contains(w.Names(), "web-0") {
			t.Fatal("it was destroyed")
		}
		never := actionOn(plan.Destroy, p.member(1))
		never.Args = plan.DestroyArgs{NeverOn: true}
		p.do(never)
		if slices.Contains(w.Names(), "web-1") {
			t.Error("one that was never on is left")
		}
	})
}
