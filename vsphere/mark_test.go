package vsphere

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// stampOf returns the text of a VM's stamp.
func (w *world) stampOf(name string) string { return w.Look(name).ExtraConfig[stamp.Key] }

func TestAnUnmarkedMemberIsNotPutIntoQuarantine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t).start()
		a := guarded(plan.Quarantine, p.member(0))
		a.Marked = true
		if f := p.fault(a); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("got the fault %+v; want %s, transient", f, vcfault.ReasonConcurrentAccess)
		}
	})
}

func TestAReleasedVMIsUnmanagedAndIsNotTouched(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm, gone := p.running(0, false), p.member(1)
		old := guarded(plan.Release, vm)
		w.must(w.SetExtraConfig("web-0", "x", "y"))
		if f := p.fault(old); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("got the fault %+v for a VM that changed after the plan", f)
		}
		p.until("the change is seen", func() bool { return p.vm(vm.MoRef).ChangeVersion != vm.ChangeVersion })
		before := w.Look("web-0")
		p.do(guarded(plan.Release, p.vm(vm.MoRef)))
		delete(before.ExtraConfig, stamp.Key)
		if after := w.Look("web-0"); !reflect.DeepEqual(before, after) || after.Power != vim.VirtualMachinePowerStatePoweredOn {
			t.Errorf("the released VM was %+v, and is %+v; want it on, and unchanged but for its stamp", before, after)
		}
		if text := w.stampOf("web-0"); text != "" || len(p.state().VMs) != 1 || !p.inventory.IsUnmanaged(vm.MoRef) {
			t.Errorf("the released VM has the stamp %q, and the group has %+v; want no stamp, the VM unmanaged, and one member left", text, p.state().VMs)
		}
		if now := w.Names(); !strings.Contains(strings.Join(now, " "), "web-0") {
			t.Errorf("vCenter has the VMs %v; want web-0 among them, because a released VM is kept", now)
		}
		w.must(w.Destroy("web-1"))
		p.until("the group has no member", func() bool { return len(p.state().VMs) == 0 })
		p.do(guarded(plan.Release, gone))
	})
}
