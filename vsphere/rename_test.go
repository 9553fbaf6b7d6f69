package vsphere

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func renaming(vm plan.VM, name string) plan.Action {
	a := guarded(plan.Rename, vm)
	a.Args = plan.RenameArgs{Name: name}
	return a
}

func moving(vm plan.VM, folder string) plan.Action {
	a := actionOn(plan.Move, vm)
	a.Args = plan.MoveArgs{Folder: folder}
	return a
}

// quarantine puts a member into quarantine as the plan does.
func (p *process) quarantine(vm plan.VM) plan.VM {
	p.t.Helper()
	mark := guarded(plan.Mark, vm)
	mark.Args = plan.MarkArgs{Reason: plan.MarkReasonScaleIn}
	p.do(mark)
	if vm.Power == plan.PoweredOn {
		off := actionOn(plan.PowerOff, vm)
		off.Marked = true
		p.do(off)
	}
	a := guarded(plan.Quarantine, p.vm(vm.MoRef))
	a.Marked = true
	p.do(a)
	return p.vm(vm.MoRef)
}

func (p *process) makeQuarantine() string {
	p.t.Helper()
	p.do(plan.Action{Op: plan.CreateQuarantine, Args: plan.MoveArgs{Folder: p.state().Folder}})
	return p.state().Quarantine
}

func TestEachStepIntoAndOutOfQuarantineIsVisibleWhenItReturns(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		away := p.quarantine(vm)
		if away.Quarantined.IsZero() || !away.Marked || away.MarkReason != plan.MarkReasonScaleIn {
			t.Fatalf("got the VM %+v; want it in quarantine, marked for the scale-in", away)
		}
		since := away.Quarantined
		kept := plan.QuarantineName("web", 0, vm.MoRef)
		p.do(renaming(away, kept))
		p.do(renaming(away, kept)) // the VM already has the name: success
		quarantine := p.makeQuarantine()
		p.do(plan.Action{Op: plan.CreateQuarantine, Args: plan.MoveArgs{Folder: p.state().Folder}}) // likewise
		p.do(moving(vm, quarantine))
		p.do(moving(vm, quarantine)) // the VM is already there: success
		away = p.vm(vm.MoRef)
		if away.Name != kept || away.Folder != quarantine || quarantine == "" || !away.Quarantined.Equal(since) {
			t.Fatalf("got the member %+v, and the quarantine folder %q; want the name %s, that folder and the time %s", away, quarantine, kept, since)
		}
		if ref, err := w.Find("/DC0/vm/vm-operator/shop/web/quarantine/" + kept); err != nil || ref.Value != vm.MoRef {
			t.Fatalf("the name in the quarantine folder leads to %v, with the error %v; want %s", ref, err, vm.MoRef)
		}
		p.do(p.cloning(0)) // the ordinal is free
		for _, again := range p.state().VMs {
			if again.MoRef != vm.MoRef {
				p.do(actionOn(plan.Destroy, again))
			}
		}
		p.do(renaming(p.vm(vm.MoRef), "web-0"))
		p.do(moving(away, p.state().Folder))
		p.do(guarded(plan.Unmark, p.vm(vm.MoRef)))
		back := p.vm(vm.MoRef)
		if back.Marked || back.MarkReason != "" || !back.Quarantined.IsZero() || back.Name != "web-0" || back.Folder != p.state().Folder {
			t.Errorf("got the VM %+v; want a member named web-0 in the group's folder, without a mark", back)
		}
	})
}

func TestATakenNameIsAConflictThatNamesItsHolderUnlessThatIsTheGroupsOwn(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm, other := p.member(0), p.member(1)
		if f := p.fault(renaming(vm, "web-1")); f.Reason != vcfault.ReasonNameHeld || !f.Transient {
			t.Errorf("got the fault %+v; want %s, transient", f, vcfault.ReasonNameHeld)
		}
		w.must(w.Rename("web-1", "web-01"))
		if _, err := w.AddVM("/DC0/vm/vm-operator/shop/web", "web-1"); err != nil {
			t.Fatal(err)
		}
		f := p.fault(renaming(vm, "web-1"))
		if f.Reason != vcfault.ReasonNameConflict || !f.NeedsOperator || !strings.Contains(f.Message, "/DC0/vm/vm-operator/shop/web/web-1,") {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q", f, vcfault.ReasonNameConflict, "/DC0/vm/vm-operator/shop/web/web-1,")
		}
		quarantine := p.makeQuarantine()
		if _, err := w.AddVM("/DC0/vm/vm-operator/shop/web/quarantine", "web-0"); err != nil {
			t.Fatal(err)
		}
		f = p.fault(moving(vm, quarantine))
		if f.Reason != vcfault.ReasonNameConflict || !strings.Contains(f.Message, "/DC0/vm/vm-operator/shop/web/quarantine/web-0,") {
			t.Errorf("got the fault %+v; want %s, with %q", f, vcfault.ReasonNameConflict, "/DC0/vm/vm-operator/shop/web/quarantine/web-0,")
		}
		p.do(moving(other, quarantine))
	})
}

// An older server that knew no power cycles took every mark for a removal.
func TestAVMInQuarantineFromAnOlderServerIsDestroyedWhenItsTimeIsOver(t *testing.T) {
	inABubble(t, func(_ *testing.T, w *world, p *process) {
		vm := p.member(0)
		w.restamp("web-0", func(s *stamp.Stamp) {
			s.Marked, s.Why, s.Quarantined = true, plan.MarkReasonPowerCycle, stamp.Time(time.Now())
		})
		p.until("the quarantine is seen", func() bool { return !p.vm(vm.MoRef).Quarantined.IsZero() })
		last := actionOn(plan.Destroy, vm)
		last.Marked = true
		p.do(last)
	})
}

func TestACloneWaitsForTheNameOfOneThatGoesToQuarantine(t *testing.T) {
	inABubble(t, func(t *testing.T, _ *world, p *process) {
		vm := p.quarantine(p.member(0))
		if f := p.fault(p.cloning(0)); f.Reason != vcfault.ReasonNameHeld || !f.Transient || f.NeedsOperator {
			t.Errorf("got the fault %+v; want %s, transient, without an operator", f, vcfault.ReasonNameHeld)
		}
		p.do(renaming(vm, plan.QuarantineName("web", 0, vm.MoRef)))
		p.do(p.cloning(0))
		last := actionOn(plan.Destroy, vm) // the retention time is over: the group may still destroy the VM
		last.Marked = true
		p.do(last)
		if vms := p.state().VMs; len(vms) != 1 || vms[0].MoRef == vm.MoRef {
			t.Errorf("got the VMs %+v; want the new member alone", vms)
		}
	})
}

func TestAMoveIntoAFolderThatIsGoneSaysSo(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		folder, err := w.MakeFolder("/DC0/vm/legacy")
		w.must(err)
		w.must(w.destroyFolder("/DC0/vm/legacy"))
		if f := p.fault(moving(vm, folder.Value)); f.Reason != vcfault.ReasonFolderGone || f.Transient {
			t.Errorf("got the fault %+v; want %s, not transient", f, vcfault.ReasonFolderGone)
		}
		if f := p.fault(plan.Action{Op: plan.CreateQuarantine, Args: plan.MoveArgs{Folder: folder.Value}}); f.Reason != vcfault.ReasonGone || !f.Transient {
			t.Errorf("got the fault %+v; want %s, transient", f, vcfault.ReasonGone)
		}
	})
}

func TestANameThatVCenterRefusesIsAConflict(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		w.FailCall("ReconfigVM_Task", &vim.InvalidName{Name: "x"}, 1)
		if f := p.fault(renaming(p.member(0), "x")); f.Reason != vcfault.ReasonNameConflict || !f.NeedsOperator {
			t.Errorf("got the fault %+v; want %s, for an operator", f, vcfault.ReasonNameConflict)
		}
	})
}

func TestAVMWithTheQuarantinesNameIsAConflict(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		p.do(plan.Action{Op: plan.CreateFolder})
		_, err := w.AddVM("/DC0/vm/vm-operator/shop/web", plan.QuarantineFolder)
		w.must(err)
		if f := p.fault(plan.Action{Op: plan.CreateQuarantine, Args: plan.MoveArgs{Folder: p.state().Folder}}); f.Reason != vcfault.ReasonNameConflict {
			t.Errorf("got the fault %+v; want %s", f, vcfault.ReasonNameConflict)
		}
	})
}

func TestARetryMakesUpForALostReplyToARenameOrAMove(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		quarantine := p.makeQuarantine()
		for _, a := range []plan.Action{renaming(vm, "web-7"), moving(vm, quarantine)} {
			method := map[plan.Op]string{plan.Rename: "ReconfigVM_Task", plan.Move: "MoveIntoFolder_Task"}[a.Op]
			w.LoseReply(method, 1)
			if f := p.fault(a); f.Reason != vcfault.ReasonVCenterUnreachable {
				t.Errorf("%s without a reply: got the fault %+v; want %s", a.Op, f, vcfault.ReasonVCenterUnreachable)
			}
			p.until("the change is read after the outage", func() bool { return p.state().Known && p.vm(vm.MoRef).ChangeVersion != vm.ChangeVersion })
			p.do(a)
		}
		if now := p.vm(vm.MoRef); now.Name != "web-7" || now.Folder != quarantine {
			t.Errorf("got the VM %+v; want it named web-7, in the quarantine folder", now)
		}
	})
}

// One replica brings a VM back from quarantine while another replica, which has not seen that, still puts it there. The name is the lock of the
// ordinal, so the VM must keep its name. (Found by the model in test/world, seed 10039227.)
func TestARenameThatWasPlannedBeforeTheVMChangedIsRefused(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		away := p.quarantine(p.member(0))
		kept := plan.QuarantineName("web", 0, away.MoRef)
		w.Rewrite(func(r any) { // the call of a replica that does not know of a change
			if c, is := r.(*vim.ReconfigVM_Task); is && c.Spec.Name == kept && c.Spec.ChangeVersion == away.ChangeVersion {
				c.Spec.ChangeVersion = "older"
			}
		})
		if f := p.fault(renaming(away, kept)); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("got the fault %+v; want %s, transient", f, vcfault.ReasonConcurrentAccess)
		}
		w.Rewrite(nil)
		p.do(guarded(plan.Unmark, p.vm(away.MoRef)))
		if f := p.fault(renaming(away, kept)); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("got the fault %+v; want %s, transient", f, vcfault.ReasonConcurrentAccess)
		}
		if now := p.vm(away.MoRef); now.Name != "web-0" {
			t.Errorf("the VM is called %s after the refused renames; want web-0", now.Name)
		}
	})
}

// If two replicas rename a VM at once, the slower one finds that the VM already has the name.
func TestARenameThatAnotherServerMadeFirstIsSuccess(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		w.must(w.Rename("web-0", "web-9"))
		duplicate := &vim.DuplicateName{Name: "web-9", Object: inventory.VMRef(vm.MoRef)}
		its := folders{p.step(web, renaming(vm, "web-9"), new(plan.StepResult))}
		if err := its.nameRefusal(context.Background(), errOf(duplicate), p.state().Folder, "web-9"); err != nil {
			t.Error(err)
		}
	})
}

// errOf returns the error of a call that ends with that fault.
func errOf(f vim.BaseMethodFault) error { return callFault{f} }

type callFault struct{ fault vim.BaseMethodFault }

func (callFault) Error() string                { return "refused" }
func (c callFault) Fault() vim.BaseMethodFault { return c.fault }

func TestAnEmptyQuarantineGoesWithItsFolderAndAnyContentKeepsBoth(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		quarantine := p.makeQuarantine()
		p.do(moving(vm, quarantine))
		if f := p.fault(p.removing()); f.Reason != plan.ReasonRemoving || !f.Transient {
			t.Errorf("with a VM of the group in quarantine, got the fault %+v; want %s, transient", f, plan.ReasonRemoving)
		}
		p.do(actionOn(plan.Destroy, vm))
		w.must(w.Move("unmanaged", "/DC0/vm/vm-operator/shop/web/quarantine"))
		f := p.fault(p.removing())
		if f.Reason != plan.ReasonFolderHoldsStranger || !strings.Contains(f.Message, "/web/quarantine/unmanaged") {
			t.Errorf("with an unmanaged VM in the quarantine folder, got the fault %+v; want %s with its path", f, plan.ReasonFolderHoldsStranger)
		}
		w.must(w.Move("unmanaged", "/DC0/vm"))
		inner, err := w.MakeFolder("/DC0/vm/vm-operator/shop/web/quarantine/quarantine")
		w.must(err)
		if f := p.fault(p.removing()); f.Reason != plan.ReasonFolderHoldsStranger {
			t.Errorf("with a foreign folder in the quarantine folder, got the fault %+v; want %s", f, plan.ReasonFolderHoldsStranger)
		}
		task, err := object.NewFolder(w.Admin().Client, inner).Destroy(context.Background())
		w.must(errors.Join(err, task.Wait(context.Background())))
		p.do(p.removing())
		if s := p.state(); s.Folder != "" || s.Quarantine != "" {
			t.Errorf("got the state %+v; want no folder and no quarantine", s)
		}
		p.do(plan.Action{Op: plan.ConfirmGone})
	})
}
