package vsphere

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// stampOf is the text of a VM's stamp.
func (w *world) stampOf(name string) string { return w.Look(name).ExtraConfig[stamp.Key] }

func TestAClonesStampRecordsItsTimeAndSourceAndNothingElse(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		p.do(plan.Action{Op: plan.CreateFolder})
		a := p.cloning(0)
		changeArgs(&a, func(of *plan.CloneArgs) { of.Fingerprint = p.state().Template.Fingerprint })
		began := time.Now().Truncate(time.Second)
		p.do(a)
		vm := p.state().VMs[0]
		if len(vm.Fingerprint) != 10 || vm.Fingerprint != plan.ArgsOf[plan.CloneArgs](a.Args).Fingerprint || vm.Created.Before(began) || vm.Created.After(time.Now()) {
			t.Errorf("%+v", vm)
		}
		for _, key := range []string{"why", "quarantined", "shutdown", "restarted", "adopted"} {
			if strings.Contains(w.stampOf("web-0"), `"`+key+`"`) {
				t.Errorf("the stamp has %s: %s", key, w.stampOf("web-0"))
			}
		}
	})
}

func TestAMarkSaysWhyAndUnmarkClearsAllOfIt(t *testing.T) {
	inABubble(t, func(t *testing.T, _ *world, p *process) {
		vm := p.quarantine(p.member(0))
		if vm.Why != plan.WhyScaleIn || !vm.Marked {
			t.Errorf("%+v", vm)
		}
		last := guarded(plan.Mark, vm) // as a deletion marks it, with no reason of its own
		last.Generation = 9
		p.do(last)
		if vm = p.vm(vm.MoRef); vm.Generation != 9 || vm.Why != plan.WhyScaleIn {
			t.Errorf("%+v", vm)
		}
		p.do(guarded(plan.Unmark, vm))
		if vm = p.vm(vm.MoRef); vm.Marked || vm.Why != "" || !vm.Quarantined.IsZero() || vm.Generation != 9 {
			t.Errorf("%+v", vm)
		}
	})
}

func TestAnUnmarkedMemberIsNotPutIntoQuarantine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t).start()
		a := guarded(plan.Quarantine, p.member(0))
		a.Marked = true
		if f := p.fault(a); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("%+v", f)
		}
	})
}

func TestAReleasedVMIsUnmanagedAndIsNotTouched(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm, gone := p.running(0, false), p.member(1)
		old := guarded(plan.Release, vm)
		w.must(w.SetExtraConfig("web-0", "x", "y"))
		if f := p.fault(old); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("changed meanwhile: %+v", f)
		}
		p.until("the change is seen", func() bool { return p.vm(vm.MoRef).ChangeVersion != vm.ChangeVersion })
		before := w.Look("web-0")
		p.do(guarded(plan.Release, p.vm(vm.MoRef)))
		delete(before.ExtraConfig, stamp.Key)
		if after := w.Look("web-0"); !reflect.DeepEqual(before, after) || after.Power != vim.VirtualMachinePowerStatePoweredOn {
			t.Errorf("it was %+v and is %+v", before, after)
		}
		if text := w.stampOf("web-0"); text != "" || len(p.state().VMs) != 1 || !p.inventory.IsUnmanaged(vm.MoRef) {
			t.Errorf("its stamp is %q; the group has %+v", text, p.state().VMs)
		}
		if now := w.Names(); !strings.Contains(strings.Join(now, " "), "web-0") {
			t.Errorf("vCenter has %v", now)
		}
		w.must(w.Destroy("web-1"))
		p.until("it is gone", func() bool { return len(p.state().VMs) == 0 })
		p.do(guarded(plan.Release, gone))
	})
}

func TestALostReplyToAReleaseTouchesNothingMore(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		w.LoseReply("ReconfigVM_Task", 1)
		if f := p.fault(guarded(plan.Release, vm)); f.Reason != vcfault.ReasonVCenterUnreachable {
			t.Errorf("%+v", f)
		}
		p.until("it is seen to be unmanaged", func() bool { return p.state().Known && len(p.state().VMs) == 0 })
		if f := p.fault(guarded(plan.Release, vm)); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("%+v", f)
		}
		if n := w.Calls()["ReconfigVM_Task"]; n != 1 {
			t.Errorf("%d reconfigures", n)
		}
	})
}
