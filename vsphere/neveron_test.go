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
			t.Errorf("got the fault %+v while web-0 is on; want %s, without an operator", f, plan.ReasonDuplicateMember)
		}
		w.must(w.PowerOff("web-0"))
		if f := p.fault(destroy); f.Reason != plan.ReasonDuplicateMember || f.NeedsOperator {
			t.Errorf("got the fault %+v after web-0 was on; want %s, without an operator", f, plan.ReasonDuplicateMember)
		}
		if !slices.Contains(w.Names(), "web-0") {
			t.Fatal("web-0 was destroyed although it has been on")
		}
		never := actionOn(plan.Destroy, p.member(1))
		never.Args = plan.DestroyArgs{NeverOn: true}
		p.do(never)
		if slices.Contains(w.Names(), "web-1") {
			t.Error("web-1 was not destroyed although it was never on")
		}
	})
}
