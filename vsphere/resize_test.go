package vsphere

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func sized(vm plan.VM, hot bool, cpu int32, memoryMB int64) plan.Action {
	a := guarded(plan.Reconfigure, vm)
	a.Args = plan.ResizeArgs{Hot: hot, CPU: cpu, MemoryMB: memoryMB}
	return a
}

func (p *process) cores(moRef string) int32 { return p.inventory.Member(moRef).CoresPerSocket }

func TestAMemberThatIsOffGetsItsSizeAndSocketsThatFit(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		p.do(sized(vm, false, 4, 2048))
		w.must(w.Reconfigure("web-0", vim.VirtualMachineConfigSpec{NumCoresPerSocket: vim.NewInt32(4)}))
		p.until("the sockets are seen", func() bool { return p.cores(vm.MoRef) == 4 })
		p.do(sized(p.vm(vm.MoRef), false, 6, 1024))
		if now := p.vm(vm.MoRef); now.CPU != 6 || now.MemoryMB != 1024 || p.cores(vm.MoRef) != 2 {
			t.Errorf("got the member %+v, with %d cores per socket; want 6 CPUs, 1024 MB and 2 cores per socket", now, p.cores(vm.MoRef))
		}
	})
}

// Otherwise, an update would take it for a clone that has another size than it was made with.
func TestAMemberThatIsResizedIsNoLongerAsItsCloneWas(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		if vm.ClonedFor == "" {
			t.Error("the clone's stamp doesn't say what it was cloned for")
		}
		p.do(sized(vm, false, 4, 2048))
		if now := p.vm(vm.MoRef); now.ClonedFor != "" {
			t.Errorf("resized, its stamp has clonedFor %q; want none", now.ClonedFor)
		}
	})
}

func TestCoresPerSocketThatVCenterChoosesStayItsChoice(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		w.must(w.ToVM("ubuntu"))
		w.must(w.Reconfigure("ubuntu", vim.VirtualMachineConfigSpec{NumCPUs: 4, NumCoresPerSocket: vim.NewInt32(4)}))
		w.must(w.Reconfigure("ubuntu", vim.VirtualMachineConfigSpec{NumCoresPerSocket: vim.NewInt32(0)}))
		w.must(w.ToTemplate("ubuntu"))
		p.until("the template is back", func() bool { return p.state().Template.MoRef != "" })
		vm := p.member(0) // of 2 CPUs, which do not fill a socket of 4
		chosen := func(cores int32) {
			t.Helper()
			if m := p.inventory.Member(vm.MoRef); !m.AutoCores || m.CoresPerSocket != cores {
				t.Errorf("vCenter chooses the cores per socket: %t, and they are %d; want true, and %d", m.AutoCores, m.CoresPerSocket, cores)
			}
		}
		chosen(4)
		p.do(sized(p.vm(vm.MoRef), false, 6, 1024))
		chosen(4)
		p.do(actionOn(plan.PowerOn, p.vm(vm.MoRef)))
		p.until("the member is on", func() bool { return p.vm(vm.MoRef).Power == plan.PoweredOn })
		chosen(6)
		if f := p.fault(sized(p.vm(vm.MoRef), true, 9, 1024)); f.Reason != vcfault.ReasonHotAddRefused { // the cores per socket cannot change while the VM is on
			t.Errorf("got the fault %+v; want %s", f, vcfault.ReasonHotAddRefused)
		}
	})
}

func TestAnOlderVCenterIsNotAskedForPropertiesItLacks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, APIVersion: "7.0.1.0"}).start()
		vm := p.running(0, false)
		p.do(actionOn(plan.PowerOff, vm))
		p.do(sized(p.vm(vm.MoRef), false, 4, 2048))
		if now := p.vm(vm.MoRef); now.CPU != 4 || p.state().Fault != nil {
			t.Errorf("got the member %+v, and the fault %+v; want 4 CPUs, and no fault", now, p.state().Fault)
		}
	})
}

// A mark for a power cycle permits powering off and resizing the member, and no other step; the resize removes the mark.
func TestTheMarkForAPowerCyclePermitsOnlyThat(t *testing.T) {
	inABubble(t, func(t *testing.T, _ *world, p *process) {
		vm := p.running(0, false)
		mark := func(why plan.MarkReason) {
			t.Helper()
			a := guarded(plan.Mark, vm)
			a.Args = plan.MarkArgs{Reason: why}
			p.do(a)
			if vm = p.vm(vm.MoRef); !vm.Marked || vm.MarkReason != why {
				t.Fatalf("got the member %+v; want a mark for %s", vm, why)
			}
		}
		mark(plan.MarkReasonPowerCycle)
		off := actionOn(plan.PowerOff, vm)
		off.Marked = true
		p.do(off)
		vm = p.vm(vm.MoRef)
		for _, op := range []plan.Op{plan.Quarantine, plan.Destroy} {
			a := guarded(op, vm)
			a.Marked = true
			if f := p.fault(a); f.Reason != vcfault.ReasonConcurrentAccess {
				t.Errorf("%s of a member that is marked for a power cycle: got the fault %+v; want %s", op, f, vcfault.ReasonConcurrentAccess)
			}
		}
		since := vm.MarkedAt
		time.Sleep(time.Until(since.Add(1100 * time.Millisecond))) // stamps have whole seconds
		mark(plan.MarkReasonScaleIn)
		if !vm.MarkedAt.After(since) {
			t.Error("the mark for removal has the time of the mark for the power cycle")
		}
		p.do(guarded(plan.Unmark, vm))
		vm = p.vm(vm.MoRef)
		mark(plan.MarkReasonPowerCycle)
		p.do(sized(vm, false, 4, 2048))
		if vm = p.vm(vm.MoRef); vm.Marked || vm.MarkReason != "" || !vm.MarkedAt.IsZero() || vm.CPU != 4 {
			t.Errorf("got the member %+v; want 4 CPUs, and no mark", vm)
		}
		mark(plan.MarkReasonScaleIn)
		p.do(sized(vm, false, 2, 2048))
		if now := p.vm(vm.MoRef); !now.Marked || now.CPU != 2 {
			t.Errorf("got the member %+v; want 2 CPUs, and the mark for another reason kept", now)
		}
	})
}

func TestARunningMemberGetsMoreWhereItsHotAddAllows(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		w.must(w.SetHotAdd("ubuntu", true, true))
		p := w.start()
		vm := p.running(0, false)
		if !vm.CPUHotAdd || !vm.MemoryHotAdd || vm.MaxHotMemoryMB == 0 {
			t.Fatalf("got the member %+v; want hot-add of CPUs and memory", vm)
		}
		p.do(sized(vm, true, 4, 2048))
		now := p.vm(vm.MoRef)
		if now.CPU != 4 || now.MemoryMB != 2048 || !now.BootTime.Equal(vm.BootTime) || now.Power != plan.PoweredOn {
			t.Errorf("the member was %+v, and is %+v; want 4 CPUs and 2048 MB, on since the same boot", vm, now)
		}
		if f := p.fault(sized(now, true, 4, now.MaxHotMemoryMB+1024)); f.Reason != vcfault.ReasonHotAddRefused || f.NeedsOperator || f.Transient {
			t.Errorf("got the fault %+v for more memory than hot-add allows; want %s, without an operator, not transient", f, vcfault.ReasonHotAddRefused)
		}
	})
}

func TestASizeThatARunningMemberCannotTakeIsRefusedWithoutACallIfThatIsKnown(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.running(0, false)
		if f := p.fault(sized(vm, true, 4, vm.MemoryMB)); f.Reason != vcfault.ReasonHotAddRefused || f.NeedsOperator || f.Transient {
			t.Errorf("got the fault %+v for CPUs without hot-add; want %s, without an operator, not transient", f, vcfault.ReasonHotAddRefused)
		}
		p.do(actionOn(plan.PowerOff, vm))
		w.must(w.SetHotAdd("web-0", true, true))
		w.must(w.Reconfigure("web-0", vim.VirtualMachineConfigSpec{NumCoresPerSocket: vim.NewInt32(2)}))
		p.until("the sockets are seen", func() bool { return p.cores(vm.MoRef) == 2 })
		p.do(actionOn(plan.PowerOn, vm))
		before := w.Calls()["ReconfigVM_Task"]
		if f := p.fault(sized(p.vm(vm.MoRef), true, 3, vm.MemoryMB)); f.Reason != vcfault.ReasonHotAddRefused || w.Calls()["ReconfigVM_Task"] != before {
			t.Errorf("got the fault %+v for 3 CPUs in sockets of 2; want %s, without a reconfiguration", f, vcfault.ReasonHotAddRefused)
		}
	})
}

func TestHotAddOfCPUsAndOfMemoryAreIndependent(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		cpu, memory  bool
		takes, fails plan.VM
	}{
		"CPUs":   {true, false, plan.VM{CPU: 4, MemoryMB: 1024}, plan.VM{CPU: 4, MemoryMB: 2048}},
		"memory": {false, true, plan.VM{CPU: 2, MemoryMB: 2048}, plan.VM{CPU: 4, MemoryMB: 2048}},
		"less":   {true, true, plan.VM{CPU: 2, MemoryMB: 1024}, plan.VM{CPU: 1, MemoryMB: 1024}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.must(w.SetHotAdd("ubuntu", c.cpu, c.memory))
				p := w.start()
				vm := p.running(0, false)
				if vm.CPUHotAdd != c.cpu || vm.MemoryHotAdd != c.memory {
					t.Fatalf("got the member %+v; want the hot-add of the case", vm)
				}
				p.do(sized(vm, true, c.takes.CPU, c.takes.MemoryMB))
				vm = p.vm(vm.MoRef)
				if f := p.fault(sized(vm, true, c.fails.CPU, c.fails.MemoryMB)); f.Reason != vcfault.ReasonHotAddRefused || f.NeedsOperator || f.Transient {
					t.Errorf("got the fault %+v; want %s, without an operator, not transient", f, vcfault.ReasonHotAddRefused)
				}
				if now := p.vm(vm.MoRef); vm.CPU != c.takes.CPU || vm.MemoryMB != c.takes.MemoryMB || now.CPU != vm.CPU || now.MemoryMB != vm.MemoryMB {
					t.Errorf("the member was %+v, and is %+v after the refused hot-add; want %d CPUs and %d MB in both", vm, now, c.takes.CPU, c.takes.MemoryMB)
				}
			})
		})
	}
}

func TestASizeIsReplannedWhenTheMemberChanged(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		if f := p.fault(sized(vm, true, 4, 2048)); f.Reason != vcfault.ReasonInvalidPowerState || !f.Transient {
			t.Errorf("got the fault %+v for a hot-add to a member that is off; want %s, transient", f, vcfault.ReasonInvalidPowerState)
		}
		p.do(actionOn(plan.PowerOn, vm))
		if f := p.fault(sized(p.vm(vm.MoRef), false, 4, 2048)); f.Reason != vcfault.ReasonInvalidPowerState || !f.Transient {
			t.Errorf("got the fault %+v for a resize with the power off of a member that is on; want %s, transient", f, vcfault.ReasonInvalidPowerState)
		}
		p.do(actionOn(plan.PowerOff, vm))
		w.must(w.SetExtraConfig("web-0", "x", "y"))
		if f := p.fault(sized(vm, false, 4, 2048)); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("got the fault %+v for a member that an operator changed; want %s, transient", f, vcfault.ReasonConcurrentAccess)
		}
		if now := p.vm(vm.MoRef); now.CPU != vm.CPU {
			t.Errorf("got the member %+v; want the CPUs that it had", now)
		}
	})
}

func TestOnlyARefusalThatConcernsTheVMIsARefusalOfTheSize(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		w.must(w.SetHotAdd("ubuntu", true, true))
		p := w.start()
		cold, hot := p.member(0), p.running(1, false)
		on := &vim.InvalidPowerState{RequestedState: vim.VirtualMachinePowerStatePoweredOff, ExistingState: vim.VirtualMachinePowerStatePoweredOn}
		for _, c := range []struct {
			fault     vim.BaseMethodFault
			cold, hot string
		}{
			{new(vim.InvalidVmConfig), vcfault.ReasonResizeRefused, vcfault.ReasonHotAddRefused},
			{&vim.MemorySizeNotSupported{MemorySizeMB: 9}, vcfault.ReasonResizeRefused, vcfault.ReasonHotAddRefused},
			{new(vim.NotSupported), vcfault.ReasonResizeRefused, vcfault.ReasonHotAddRefused},
			{&vim.InvalidArgument{InvalidProperty: "numCPUs"}, vcfault.ReasonResizeRefused, vcfault.ReasonHotAddRefused},
			{new(vim.CpuHotPlugNotSupported), vcfault.ReasonInvalidPowerState, vcfault.ReasonHotAddRefused},
			{on, vcfault.ReasonInvalidPowerState, vcfault.ReasonHotAddRefused},
			{new(vim.NotEnoughLicenses), vcfault.ReasonLicense, vcfault.ReasonHotAddRefused},
			{new(vim.InsufficientMemoryResourcesFault), vcfault.ReasonResourceLimit, vcfault.ReasonResourceLimit},
			{new(vim.TaskInProgress), vcfault.ReasonTaskInProgress, vcfault.ReasonTaskInProgress},
			{new(vim.ConcurrentAccess), vcfault.ReasonConcurrentAccess, vcfault.ReasonConcurrentAccess},
			{new(vim.SystemError), vcfault.ReasonInternal, vcfault.ReasonInternal},
		} {
			name := fmt.Sprintf("%T", c.fault)
			w.FailTask(vcsim.Reconfigure, nil, c.fault, 2)
			f := p.fault(sized(p.vm(cold.MoRef), false, 4, 2048))
			if f.Reason != c.cold || f.Reason == vcfault.ReasonResizeRefused && (!f.NeedsOperator || f.Transient) {
				t.Errorf("%s while the member is off: got the fault %+v; want %s", name, f, c.cold)
			}
			f = p.fault(sized(p.vm(hot.MoRef), true, 4, 2048))
			if f.Reason != c.hot || f.Reason == vcfault.ReasonHotAddRefused && (f.NeedsOperator || f.Transient) {
				t.Errorf("%s while the member is on: got the fault %+v; want %s", name, f, c.hot)
			}
		}
		w.Deny("ReconfigVM_Task", "VirtualMachine.Config.CPUCount")
		if f := p.fault(sized(p.vm(cold.MoRef), false, 4, 2048)); f.Reason != vcfault.ReasonMissingPrivilege {
			t.Errorf("got the fault %+v; want %s", f, vcfault.ReasonMissingPrivilege)
		}
	})
}
