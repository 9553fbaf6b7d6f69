package vsphere

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// running creates a member that is on, with or without VMware Tools running in its guest.
func (p *process) running(ordinal int32, tools bool) plan.VM {
	p.t.Helper()
	vm := p.member(ordinal)
	p.do(actionOn(plan.PowerOn, vm))
	if tools {
		p.world.must(p.world.SetTools(vm.Name, true))
		p.until("the tools are seen", func() bool { return p.vm(vm.MoRef).Tools })
	}
	return p.vm(vm.MoRef)
}

// vm returns a VM of the group from the inventory.
func (p *process) vm(moRef string) plan.VM {
	for _, vm := range p.state().VMs {
		if vm.MoRef == moRef {
			return vm
		}
	}
	return plan.VM{}
}

// guarded returns a step that is guarded by the changeVersion of vm.
func guarded(op plan.Op, vm plan.VM) plan.Action {
	a := actionOn(op, vm)
	a.ChangeVersion = vm.ChangeVersion
	return a
}

func TestAGuestWithoutToolsCannotBeAskedAndItsStampSaysNothing(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.running(0, false)
		if f := p.fault(guarded(plan.ShutdownGuest, vm)); f.Reason != vcfault.ReasonToolsUnavailable || f.NeedsOperator || f.Transient {
			t.Errorf("got the fault %+v; want %s, without an operator, not transient", f, vcfault.ReasonToolsUnavailable)
		}
		if vm := p.vm(vm.MoRef); !vm.Shutdown.At.IsZero() {
			t.Errorf("got the member %+v; want no request to shut down in its stamp", vm)
		}
		p.do(actionOn(plan.PowerOff, vm))
		p.do(guarded(plan.ShutdownGuest, vm)) // the VM is already off
		if n := w.Calls()["ReconfigVM_Task"]; n != 0 {
			t.Errorf("the steps for a VM that was already off reconfigured it %d times; want never", n)
		}
	})
}

func TestAGuestWhoseMarkWasWithdrawnIsNotAskedToShutDown(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		a := guarded(plan.ShutdownGuest, p.running(0, true))
		a.Marked = true
		if f := p.fault(a); f.Reason != vcfault.ReasonConcurrentAccess || !f.Untried {
			t.Errorf("got the fault %+v; want %s, untried", f, vcfault.ReasonConcurrentAccess)
		}
		if n := w.Calls()["ShutdownGuest"]; n != 0 {
			t.Errorf("the guest was asked to shut down %d times; want never", n)
		}
	})
}

func TestOfTwoServersThatResetAMemberOneSucceeds(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		one, two := w.start(), w.start()
		a := guarded(plan.Reset, one.running(0, true))
		two.until("the other one sees it so", func() bool { return two.vm(a.MoRef).ChangeVersion == a.ChangeVersion && two.vm(a.MoRef).Tools })
		one.do(a)
		if f := two.fault(a); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("got the fault %+v; want %s, transient", f, vcfault.ReasonConcurrentAccess)
		}
		if n := w.Calls()["ResetVM_Task"]; n != 1 {
			t.Errorf("the member was reset %d times; want once", n)
		}
		if vm := one.vm(a.MoRef); vm.Restarted.IsZero() || vm.Power != plan.PoweredOn {
			t.Errorf("got the member %+v; want it restarted, and on", vm)
		}
	})
}

func TestAMemberThatIsOffOrMarkedIsNotResetAndKeepsItsStamp(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		if f := p.fault(guarded(plan.Reset, vm)); f.Reason != vcfault.ReasonInvalidPowerState {
			t.Errorf("got the fault %+v for the reset of a member that is off; want %s", f, vcfault.ReasonInvalidPowerState)
		}
		p.do(actionOn(plan.PowerOn, vm))
		p.do(guarded(plan.Mark, p.vm(vm.MoRef)))
		if f := p.fault(guarded(plan.Reset, p.vm(vm.MoRef))); f.Reason != vcfault.ReasonConcurrentAccess {
			t.Errorf("got the fault %+v for the reset of a marked member; want %s", f, vcfault.ReasonConcurrentAccess)
		}
		if n := w.Calls()["ResetVM_Task"]; n != 0 || !p.vm(vm.MoRef).Restarted.IsZero() {
			t.Errorf("the member was reset %d times, and is %+v; want no reset, and none in the stamp", n, p.vm(vm.MoRef))
		}
	})
}

func TestAResetThatVCenterRefusesIsAFaultAndNotTriedForTheSameVersion(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		a := guarded(plan.Reset, p.running(0, false))
		w.Deny("ResetVM_Task", "VirtualMachine.Interact.Reset")
		if f := p.fault(a); f.Reason != vcfault.ReasonMissingPrivilege || !f.NeedsOperator {
			t.Errorf("got the fault %+v; want %s, for an operator", f, vcfault.ReasonMissingPrivilege)
		}
		if vm := p.vm(a.MoRef); !vm.Restarted.IsZero() || strings.Contains(w.stampOf("web-0"), "restarted") {
			t.Errorf("got the member %+v; want no restart in its stamp", vm)
		}
		w.HealCalls()
		if f := p.fault(a); f.Reason != vcfault.ReasonConcurrentAccess { // by its own stamp
			t.Errorf("got the fault %+v; want %s", f, vcfault.ReasonConcurrentAccess)
		}
		p.do(guarded(plan.Reset, p.vm(a.MoRef)))
		if p.vm(a.MoRef).Restarted.IsZero() {
			t.Errorf("got the member %+v; want it restarted", p.vm(a.MoRef))
		}
	})
}

func TestAFailedResetKeepsTheRecordOfTheLastSuccessfulOne(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.running(0, false)
		p.do(guarded(plan.Reset, vm))
		was := p.vm(vm.MoRef)
		w.FailTask(vcsim.Reset, nil, new(vim.SystemError), 1)
		if f := p.fault(guarded(plan.Reset, was)); f.Reason != vcfault.ReasonInternal {
			t.Errorf("got the fault %+v; want %s", f, vcfault.ReasonInternal)
		}
		if now := p.vm(vm.MoRef); was.Restarted.IsZero() || now.Restarted != was.Restarted {
			t.Errorf("the member was %+v, and is %+v after the failed reset; want the time of the successful reset in both", was, now)
		}
	})
}

func TestToolsThatStartOrStopAreSeenAndReported(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.running(0, false)
		for _, run := range []bool{true, false} {
			notified := p.notified(web.UID)
			w.must(w.SetTools("web-0", run))
			p.until("the guest's state is seen", func() bool { return p.vm(vm.MoRef).Tools == run })
			if p.notified(web.UID) == notified {
				t.Error("the group was not notified of the guest's new state")
			}
		}
		before := w.Calls()["RetrievePropertiesEx"]
		w.must(w.PowerOn("unmanaged"))
		w.must(w.SetTools("unmanaged", true))
		if err := p.reader.Read(context.Background()); err != nil || w.Calls()["RetrievePropertiesEx"] > before+2 {
			t.Errorf("the read ended with %v, and the unmanaged VM's guest took %d reads; want at most 2", err, w.Calls()["RetrievePropertiesEx"]-before)
		}
	})
}

// Another replica may still be taking the member down because of the mark that this one withdraws.
func TestAnUnmarkWaitsForTheTaskThatTheMarkCaused(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		op   plan.Op
		kind vcsim.Kind
		call string
	}{{plan.PowerOff, vcsim.PowerOff, "PowerOffVM_Task"}, {plan.Destroy, vcsim.Destroy, "Destroy_Task"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			one, two := w.start(), w.start()
			vm := one.member(0)
			if way.op == plan.PowerOff {
				one.do(actionOn(plan.PowerOn, vm))
				vm = one.vm(vm.MoRef)
			}
			one.do(guarded(plan.Mark, vm))
			two.until("the other server sees the mark", func() bool { return len(two.state().VMs) == 1 && two.vm(vm.MoRef).Marked })
			w.Hold(way.kind)
			down := actionOn(way.op, one.vm(vm.MoRef))
			down.Marked = true
			done := make(chan error, 2)
			go func() { done <- one.Do(context.Background(), web, down) }()
			one.until("the member is being taken down", func() bool { return w.Calls()[way.call] == 1 })

			go func() { done <- two.Do(context.Background(), web, guarded(plan.Unmark, two.vm(vm.MoRef))) }()
			two.until("the mark is removed", func() bool { return !strings.Contains(w.stampOf("web-0"), `"marked":true`) })
			if time.Sleep(time.Minute); len(done) > 0 {
				t.Fatalf("%s: a step did not wait for the task that runs: %v", way.op, <-done)
			}
			w.Release(way.kind)
			w.must(<-done)
			w.must(<-done)
			for _, back := range two.state().VMs {
				if way.op == plan.Destroy || back.Marked || back.Power != plan.PoweredOff {
					t.Errorf("after %s, the group has the member %+v; want it destroyed, or off and unmarked", way.op, back)
				}
			}
		})
	}
}

// Two replicas know different specs: one of them powers on a member that the other one removes. (Found by a random life: two VMs of one ordinal were
// on, one of them in quarantine.)
// The other replica's power-on is first a task of the datacenter, which does not name the VM, and then a task of the VM.
func TestAMemberThatIsBeingPoweredOnIsNotPutIntoQuarantine(t *testing.T) {
	t.Parallel()
	for _, held := range []vcsim.Kind{vcsim.PowerOn, vcsim.PowerOnMulti} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			one, two := w.start(), w.start()
			vm := one.member(0)
			two.until("the other server sees the member", func() bool { return len(two.state().VMs) == 1 && two.vm(vm.MoRef).ChangeVersion == vm.ChangeVersion })
			w.Hold(held)
			done := make(chan error, 2)
			go func() { done <- one.Do(context.Background(), web, actionOn(plan.PowerOn, vm)) }()
			one.until("the member is being powered on", func() bool { return w.Calls()["PowerOnMultiVM_Task"] == 1 })
			two.do(guarded(plan.Mark, vm))
			gone := guarded(plan.Quarantine, two.vm(vm.MoRef))
			gone.Marked = true
			go func() { done <- two.Do(context.Background(), web, gone) }()
			if time.Sleep(time.Minute); len(done) > 0 {
				t.Fatalf("%s: a step did not wait for the power-on that runs: %v", held, <-done)
			}
			w.Release(held)
			if one, two := <-done, <-done; (one == nil) == (two == nil) {
				t.Errorf("%s: not exactly one of the two succeeds: %v, %v", held, one, two)
			}
			if now := two.vm(vm.MoRef); !now.Quarantined.IsZero() || now.Power != plan.PoweredOn || !now.Marked {
				t.Errorf("%s: got the member %+v; want it on and marked, and not in quarantine", held, now)
			}
		})
	}
}

// DRS powers a member on by a task of the VM, which does not end while the VM has an open question.
func TestAQuarantineDoesNotWaitForPowerOnsOfOtherMembers(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		gone, other := p.member(0), p.member(1)
		p.do(guarded(plan.Mark, gone))
		a := guarded(plan.Quarantine, p.vm(gone.MoRef))
		a.Marked = true
		w.Hold(vcsim.PowerOn)
		defer w.Release(vcsim.PowerOn)
		go func() { _ = p.Do(context.Background(), web, actionOn(plan.PowerOn, other)) }()
		p.until("the other is being powered on", func() bool { return w.Calls()["PowerOnMultiVM_Task"] == 1 })
		time.Sleep(time.Minute) // its own task runs
		done := make(chan error, 1)
		go func() { done <- p.Do(context.Background(), web, a) }()
		time.Sleep(time.Minute)
		select {
		case err := <-done:
			if err != nil || p.vm(gone.MoRef).Quarantined.IsZero() {
				t.Errorf("got the error %v and the member %+v; want it quarantined", err, p.vm(gone.MoRef))
			}
		default:
			t.Error("the quarantine waits for the power-on of another member")
		}
	})
}

// A VM that is powered on while the stamp is being written is still a member when the step ends.
func TestAQuarantineIsTakenBackWhenTheVMIsPoweredOnAtTheSameTime(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		p.do(guarded(plan.Mark, vm))
		gone := guarded(plan.Quarantine, p.vm(vm.MoRef))
		gone.Marked = true
		before := w.Calls()["ReconfigVM_Task"]
		w.Hold(vcsim.Reconfigure)
		done := make(chan error, 1)
		go func() { done <- p.Do(context.Background(), web, gone) }()
		p.until("the stamp is being written", func() bool { return w.Calls()["ReconfigVM_Task"] > before })
		w.must(w.PowerOn("web-0"))
		w.Release(vcsim.Reconfigure)
		if err := <-done; err == nil {
			t.Error("the quarantine succeeded although the VM was powered on before its stamp was written")
		}
		if now := p.vm(vm.MoRef); !now.Quarantined.IsZero() || !now.Marked || now.Power != plan.PoweredOn {
			t.Errorf("got the member %+v; want it marked and on, and not in quarantine", now)
		}
	})
}

// restamp changes a VM's stamp as another server might.
func (w *world) restamp(name string, change func(*stamp.Stamp)) {
	w.t.Helper()
	s, err := stamp.Decode(w.stampOf(name))
	w.must(err)
	change(&s)
	w.must(w.SetExtraConfig(name, stamp.Key, s.Encode()))
}

func TestAMarkedMemberIsNotPoweredOn(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		w.restamp("web-0", func(s *stamp.Stamp) { s.Marked, s.Why = true, plan.MarkReasonScaleIn })
		w.must(p.reader.Read(t.Context(), inventory.VMRef(vm.MoRef)))
		if f := p.fault(actionOn(plan.PowerOn, vm)); f.Reason != vcfault.ReasonConcurrentAccess {
			t.Errorf("got the fault %+v; want %s", f, vcfault.ReasonConcurrentAccess)
		}
		if n := w.Calls()["PowerOnMultiVM_Task"] + w.Calls()["PowerOnVM_Task"]; n != 0 {
			t.Errorf("the marked member was powered on %d times; want never", n)
		}
	})
}

func TestASuspendedVMThatVCenterDoesNotPowerOffNeedsAnOperator(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.running(0, false)
		w.FailTask(vcsim.PowerOff, nil, &vim.InvalidPowerState{
			RequestedState: vim.VirtualMachinePowerStatePoweredOff, ExistingState: vim.VirtualMachinePowerStateSuspended,
		}, 1)
		if f := p.fault(actionOn(plan.PowerOff, vm)); f.Reason != vcfault.ReasonInvalidPowerState || !f.NeedsOperator || !strings.Contains(f.Message, "suspended") {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q", f, vcfault.ReasonInvalidPowerState, "suspended")
		}
	})
}
