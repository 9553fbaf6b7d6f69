package vsphere

import (
	"strings"
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// standby creates a standby member as the plan does.
func (p *process) standby(ordinal int32) plan.VM {
	p.t.Helper()
	p.do(plan.Action{Op: plan.CreateFolder})
	a := p.cloning(ordinal)
	changeArgs(&a, func(of *plan.CloneArgs) { of.Standby = true })
	p.do(a)
	return p.state().VMs[0]
}

func promotion(vm plan.VM) plan.Action {
	a := guarded(plan.PowerOn, vm)
	a.Args, a.Generation = plan.PowerOnArgs{Promotes: true}, 7
	return a
}

func TestAStandbyMembersStampSaysSoUntilItIsPromoted(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.standby(0)
		if !vm.IsStandby() || !strings.Contains(w.stampOf("web-0"), `"standby":true`) {
			t.Fatalf("got the member %+v; want a standby member", vm)
		}
		if groups, _ := p.ListGroups(); len(groups) > 0 {
			t.Errorf("the groups with members that serve are %+v; want none, because the member is on standby", groups)
		}
		p.do(promotion(vm))
		if vm = p.vm(vm.MoRef); vm.Standby || vm.Power != plan.PoweredOn || vm.Generation != 7 || strings.Contains(w.stampOf("web-0"), "standby") {
			t.Fatalf("got the promoted member %+v; want it on, with the generation 7, and no standby member", vm)
		}
		p.do(actionOn(plan.PowerOff, vm))
		if vm = p.vm(vm.MoRef); vm.IsStandby() {
			t.Errorf("got the member %+v after its power-off; want no standby member", vm)
		}
	})
}

func TestAStandbyMemberThatChangedIsNotPromoted(t *testing.T) {
	inABubble(t, func(t *testing.T, _ *world, p *process) {
		vm := p.standby(0)
		mark := guarded(plan.Mark, vm)
		mark.Args = plan.MarkArgs{Reason: plan.MarkReasonUpdate}
		p.do(mark) // by another replica
		if f := p.fault(promotion(vm)); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("got the fault %+v; want %s, transient", f, vcfault.ReasonConcurrentAccess)
		}
		if vm = p.vm(vm.MoRef); !vm.IsStandby() || !vm.Marked {
			t.Errorf("got the member %+v; want a marked standby member", vm)
		}
	})
}

func TestAFailedPowerOnLeavesAPromotedMemberThatIsOff(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.standby(0)
		w.FailTask(vcsim.PowerOn, nil, &vim.TaskInProgress{}, 1)
		if f := p.fault(promotion(vm)); f.Reason == "" {
			t.Fatal("the power-on succeeded although its task was to fail")
		}
		if vm = p.vm(vm.MoRef); vm.IsStandby() || vm.Power != plan.PoweredOff {
			t.Errorf("got the member %+v; want an ordinary member that is off", vm)
		}
	})
}

// The member never ran. So if another VM gets its ordinal, the member doesn't run twice.
func TestAStandbyMemberThatLeftVCentersInventoryIsGone(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.standby(0)
		w.must(w.Unregister("web-0"))
		p.until("the promoted member is gone", func() bool {
			s := p.State(web, plan.Query{Template: "ubuntu", Kept: 1, Recorded: []v1alpha1.Member{{Name: vm.Name, MoRef: vm.MoRef}}})
			return len(s.VMs) == 0 && s.IsGone(vm.MoRef, "") && len(s.Vanished) == 0
		})
	})
}
