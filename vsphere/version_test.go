package vsphere

import (
	"testing"
	"testing/synctest"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func TestAMarkPlannedBeforeAPowerOnIsRefusedAndPlannedAgainWithTheNewVersion(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*process, plan.VM){
		"a power-on of ours":        func(p *process, vm plan.VM) { p.do(actionOn(plan.PowerOn, vm)) },
		"a power-on by an operator": func(p *process, vm plan.VM) { p.world.must(p.world.PowerOn(vm.Name)) },
		"no visible reason":         func(p *process, vm plan.VM) { p.world.must(p.world.BumpChangeVersion(vm.Name)) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newWorld(t).start()
				vm := p.member(0)
				change(p, vm)
				if f := p.fault(guarded(plan.Mark, vm)); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient || p.vm(vm.MoRef).Marked {
					t.Errorf("got the fault %+v, and the member is marked: %t; want %s, transient, and no mark", f, p.vm(vm.MoRef).Marked, vcfault.ReasonConcurrentAccess)
				}
				p.until("the new version is seen", func() bool { return p.vm(vm.MoRef).ChangeVersion != vm.ChangeVersion })
				p.do(guarded(plan.Mark, p.vm(vm.MoRef)))
				if !p.vm(vm.MoRef).Marked {
					t.Error("the member has no mark although the new version was seen")
				}
			})
		})
	}
}
