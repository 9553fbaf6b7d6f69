package vsphere

import (
	"testing"
	"testing/synctest"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// drsWorld is a vCenter whose cluster has two hosts, and DRS with that configuration.
func drsWorld(t *testing.T, d vcsim.DRS) (*world, *process) {
	t.Helper()
	w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Hosts: 2})
	w.must(w.SetDRS(firstCluster, d))
	return w, w.start()
}

// fillHostOf fills the host that a VM is on.
func (w *world) fillHostOf(name string) (host string) {
	w.t.Helper()
	host = vctest.Value(w.Details(name)).Host
	w.must(w.FillHost(host, true))
	return host
}

func TestDRSPowersAMemberOnWhateverItsLevelAndOnAHostThatHasRoom(t *testing.T) {
	t.Parallel()
	for _, level := range []vim.DrsBehavior{"", vim.DrsBehaviorFullyAutomated, vim.DrsBehaviorPartiallyAutomated, vim.DrsBehaviorManual} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, p := drsWorld(t, vcsim.DRS{Level: level})
				vm := p.member(0)
				full := w.fillHostOf("web-0")
				p.do(actionOn(plan.PowerOn, vm))
				if now := p.vm(vm.MoRef); now.Power != plan.PoweredOn || vctest.Value(w.Details("web-0")).Host == full {
					t.Errorf("got the member %+v; want it on, and not on the full host %s", now, full)
				}
				if c := w.Calls(); c["PowerOnMultiVM_Task"] != 1 || c["PowerOnVM_Task"] != 0 {
					t.Errorf("got the calls %v; want one PowerOnMultiVM_Task and no PowerOnVM_Task", c)
				}
			})
		})
	}
}

func TestAPowerOnThatDRSDoesNotAttemptIsAFaultWithItsReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := drsWorld(t, vcsim.DRS{})
		vm := p.member(0)
		for _, host := range []string{"DC0_C0_H0", "DC0_C0_H1"} {
			w.must(w.FillHost(firstCluster+"/"+host, true))
		}
		if f := p.fault(actionOn(plan.PowerOn, vm)); f.Reason != vcfault.ReasonResourceLimit || !f.NeedsOperator {
			t.Errorf("got the fault %+v; want %s, for an operator", f, vcfault.ReasonResourceLimit)
		}
		if p.vm(vm.MoRef).Power == plan.PoweredOn {
			t.Error("the member is on although DRS did not attempt its power-on")
		}
	})
}

func TestALevelThatBecameManualIsAFaultAndOverriddenAtTheNextTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := drsWorld(t, vcsim.DRS{})
		vm := p.member(0)
		w.must(w.SetDRS(firstCluster, vcsim.DRS{Levels: map[string]vim.DrsBehavior{vm.MoRef: vim.DrsBehaviorManual}})) // which the server has not read
		f := p.fault(actionOn(plan.PowerOn, vm))
		if f.Reason != vcfault.ReasonDRSManual || !f.NeedsOperator || !vctest.Mentions(f.Message, "recommendation", "Partially Automated") {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q and %q", f, vcfault.ReasonDRSManual, "recommendation", "Partially Automated")
		}
		p.until("the level is read", func() bool { return p.inventory.Automation(p.inventory.Member(vm.MoRef)) == vim.DrsBehaviorManual })
		p.do(actionOn(plan.PowerOn, vm))
		if p.vm(vm.MoRef).Power != plan.PoweredOn {
			t.Error("the member is off after the try that overrides the manual level")
		}
	})
}

func TestAPowerOnWithoutATaskIsAwaitedByThePowerState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := drsWorld(t, vcsim.DRS{NoTasks: true})
		one, two := p.member(0), p.member(1)
		w.SetLatency(vcsim.Latency{Power: 30 * time.Second})
		p.do(actionOn(plan.PowerOn, one))
		if p.vm(one.MoRef).Power != plan.PoweredOn {
			t.Error("the step succeeded before the member was on")
		}
		w.FailTask(vcsim.PowerOn, nil, new(vim.InsufficientMemoryResourcesFault), 1)
		if f := p.fault(actionOn(plan.PowerOn, two)); f.Reason != vcfault.ReasonTimeout {
			t.Errorf("got the fault %+v for a power-on without a task; want %s", f, vcfault.ReasonTimeout)
		}
	})
}

func TestWithoutDRSOrWhereItIsRefusedAMemberIsPoweredOnAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drs    vcsim.DRS
		refuse vim.BaseMethodFault
		multi  int
	}{
		"DRS is off":       {drs: vcsim.DRS{Off: true}},
		"no licence":       {drs: vcsim.DRS{Unlicensed: true}, multi: 1},
		"not permitted":    {refuse: &vim.NoPermission{PrivilegeId: "System.View"}, multi: 1},
		"an older vCenter": {refuse: &vim.InvalidArgument{InvalidProperty: "option"}, multi: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, p := drsWorld(t, c.drs)
				vm := p.member(0)
				if c.refuse != nil {
					w.FailCall("PowerOnMultiVM_Task", c.refuse, 0)
				}
				p.do(actionOn(plan.PowerOn, vm))
				if n := w.Calls(); p.vm(vm.MoRef).Power != plan.PoweredOn || n["PowerOnVM_Task"] != 1 || n["PowerOnMultiVM_Task"] != c.multi {
					t.Errorf("got the member %+v after the calls %v; want it on after %d PowerOnMultiVM_Task and one PowerOnVM_Task", p.vm(vm.MoRef), n, c.multi)
				}
			})
		})
	}
}
