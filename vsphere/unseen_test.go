package vsphere

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Names are unique in a folder, also among objects that the server's account cannot see. Such an object stays: it is no clone that another replica
// is about to finish, so the fault says what an operator can do.
func TestANameThatAHiddenObjectHasNeedsAnOperator(t *testing.T) {
	const folder = "/DC0/vm/vm-operator/shop/web"
	for name, story := range map[string]struct {
		holder string
		step   func(w *world, p *process) plan.Action
	}{
		"a clone":  {folder + "/web-0", func(_ *world, p *process) plan.Action { return p.cloning(0) }},
		"a rename": {folder + "/web-7", func(_ *world, p *process) plan.Action { return renaming(p.member(0), "web-7") }},
		"a move":   {folder + "/quarantine/web-0", func(_ *world, p *process) plan.Action { return moving(p.member(0), p.makeQuarantine()) }},
		"the quarantine": {folder + "/quarantine", func(_ *world, p *process) plan.Action {
			return plan.Action{Op: plan.CreateQuarantine, Args: plan.MoveArgs{Folder: p.state().Folder}}
		}},
		"the group's folder":     {folder, func(*world, *process) plan.Action { return plan.Action{Op: plan.CreateFolder} }},
		"the namespace's folder": {"/DC0/vm/vm-operator/shop", func(*world, *process) plan.Action { return plan.Action{Op: plan.CreateFolder} }},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world, p *process) {
				if strings.HasPrefix(story.holder, folder+"/") {
					p.do(plan.Action{Op: plan.CreateFolder})
				}
				step := story.step(w, p)
				at := strings.LastIndexByte(story.holder, '/')
				var holder vim.ManagedObjectReference
				var err error
				if name := story.holder[at+1:]; strings.HasPrefix(name, "web-") {
					holder, err = w.AddVM(story.holder[:at], name)
				} else {
					holder, err = w.MakeFolder(story.holder)
				}
				w.must(err)
				w.Hide(holder)
				f := p.fault(step)
				if f.Reason != vcfault.ReasonMissingPrivilege || !f.NeedsOperator || !strings.Contains(f.Message, holder.Value) {
					t.Errorf("got the fault %+v; want %s, for an operator, that names %s", f, vcfault.ReasonMissingPrivilege, holder.Value)
				}
				w.Show(holder)
			})
		})
	}
}

func TestAHiddenVMInTheGroupsFolderIsKept(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		p.do(plan.Action{Op: plan.CreateFolder})
		hidden, err := w.AddVM("/DC0/vm/vm-operator/shop/web", "precious")
		w.must(err)
		w.Hide(hidden)
		if f := p.fault(p.removing()); f.Reason != plan.ReasonFolderStays || !strings.Contains(f.Message, "VirtualMachine.Inventory.Unregister") {
			t.Errorf("got the fault %+v; want %s, with the privilege that the account lacks on the VM", f, plan.ReasonFolderStays)
		}
		w.Show(hidden)
		if f := p.fault(p.removing()); f.Reason != plan.ReasonFolderHoldsStranger {
			t.Errorf("once the VM is visible, got the fault %+v; want %s", f, plan.ReasonFolderHoldsStranger)
		}
	})
}

// hideConfiguration lets vCenter show a VM without its configuration, as one that is being cloned, or is invalid.
func (w *world) hideConfiguration(vm vim.ManagedObjectReference) {
	w.ChangeReads(func(o *vim.ObjectContent) {
		if o.Obj == vm {
			o.PropSet = slices.DeleteFunc(o.PropSet, func(x vim.DynamicProperty) bool { return strings.HasPrefix(x.Name, "config.") })
		}
	})
}

// A VM whose configuration vCenter doesn't show may be one whose clone is running. If none is, somebody has to look.
func TestANameThatAVMWithoutConfigurationHasNeedsAnOperatorUnlessACloneRuns(t *testing.T) {
	const folder = "/DC0/vm/vm-operator/shop/web"
	for name, story := range map[string]struct {
		in, holder string
		step       func(p *process, member plan.VM) plan.Action
		waits      string // the reason while a clone runs
	}{
		"a clone":  {folder, "web-1", func(p *process, _ plan.VM) plan.Action { return p.cloning(1) }, plan.ReasonCloneRunning},
		"a rename": {folder, "web-7", func(_ *process, member plan.VM) plan.Action { return renaming(member, "web-7") }, vcfault.ReasonNameHeld},
		"a move": {folder + "/quarantine", "web-0", func(p *process, member plan.VM) plan.Action {
			return moving(member, p.state().Quarantine)
		}, vcfault.ReasonNameHeld},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world, p *process) {
				member := p.member(0)
				p.makeQuarantine()
				holder, err := w.AddVM(story.in, story.holder)
				w.must(err)
				w.hideConfiguration(holder)
				two := w.start()
				w.SetLatency(vcsim.Latency{Clone: time.Minute})
				ended := two.begun(two.cloning(2))
				time.Sleep(time.Second)
				if f := two.fault(story.step(two, member)); f.Reason != story.waits || f.NeedsOperator {
					t.Errorf("while a clone runs, got the fault %+v; want %s, without an operator", f, story.waits)
				}
				w.must(<-ended)
				if f := two.fault(story.step(two, member)); f.Reason != vcfault.ReasonNameConflict || !f.NeedsOperator || !strings.Contains(f.Message, holder.Value) {
					t.Errorf("got the fault %+v; want %s, for an operator, that names %s", f, vcfault.ReasonNameConflict, holder.Value)
				}
			})
		})
	}
}

func TestAVMWithoutConfigurationInTheGroupsFolderNeedsAnOperator(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		p.do(plan.Action{Op: plan.CreateFolder})
		holder, err := w.AddVM("/DC0/vm/vm-operator/shop/web", "precious")
		w.must(err)
		w.hideConfiguration(holder)
		two := w.start()
		if f := two.fault(two.removing()); f.Reason != plan.ReasonUnreachable || !f.NeedsOperator || !strings.Contains(f.Message, holder.Value) {
			t.Errorf("got the fault %+v; want %s, for an operator, that names %s", f, plan.ReasonUnreachable, holder.Value)
		}
	})
}

// Without its devices, nothing says which disks of a VM must be kept.
func TestAVMWhoseDevicesVCenterWithholdsIsKept(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		w.attach("unmanaged")
		vm = p.vm(vm.MoRef)
		const devices = "config.hardware.device"
		w.ChangeReads(func(o *vim.ObjectContent) {
			if o.Obj.Value == vm.MoRef {
				o.PropSet = slices.DeleteFunc(o.PropSet, func(x vim.DynamicProperty) bool { return x.Name == devices })
				o.MissingSet = append(o.MissingSet, vim.MissingProperty{Path: devices, Fault: vim.LocalizedMethodFault{Fault: &vim.SystemError{}}})
			}
		})
		if f := p.fault(actionOn(plan.Destroy, vm)); f.Reason != plan.ReasonUnreachable || !slices.Contains(w.Names(), "web-0") {
			t.Errorf("got the fault %+v; want %s, and the VM kept with the disk of another", f, plan.ReasonUnreachable)
		}
		w.ChangeReads(nil)
		p.do(actionOn(plan.Destroy, vm))
	})
}

func TestADetachmentThatChangesNothingNeedsAnOperator(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		w.attach("unmanaged")
		vm = p.vm(vm.MoRef)
		w.Rewrite(func(r any) {
			if x, is := r.(*vim.ReconfigVM_Task); is {
				x.Spec.DeviceChange = nil
			}
		})
		before := w.Calls()["ReconfigVM_Task"]
		f := p.fault(actionOn(plan.Destroy, vm))
		if n := w.Calls()["ReconfigVM_Task"] - before; f.Reason != vcfault.ReasonRefused || !f.NeedsOperator || n != detachTries || !slices.Contains(w.Names(), "web-0") {
			t.Errorf("got the fault %+v after %d changes; want %s, for an operator, after %d, and the VM kept", f, n, vcfault.ReasonRefused, detachTries)
		}
		w.Rewrite(nil)
		p.do(actionOn(plan.Destroy, vm))
	})
}

// A step also waits for power tasks that others have begun, and reports them if they stand still.
func TestAStepThatWaitsForAnothersTaskIsStalledWithIt(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		mark := guarded(plan.Mark, vm)
		mark.Args = plan.MarkArgs{Reason: plan.MarkReasonScaleIn}
		p.do(mark)
		w.Hold(vcsim.PowerOn)
		other := w.start()
		on := make(chan error, 1)
		go func() {
			_, err := other.PowerOn(context.Background(), vim.ManagedObjectReference{}, inventory.VMRef(vm.MoRef), "")
			on <- err
		}()
		time.Sleep(time.Second)
		quarantine := guarded(plan.Quarantine, p.vm(vm.MoRef))
		quarantine.Marked = true
		ended := p.begun(quarantine)
		time.Sleep(15 * time.Minute)
		if f := p.state().Stalled[quarantine.Key]; f.Reason != plan.ReasonTaskStalled || !f.NeedsOperator {
			t.Errorf("after 15 minutes, the step is stalled with %+v; want %s", f, plan.ReasonTaskStalled)
		}
		w.Release(vcsim.PowerOn)
		<-on
		<-ended
	})
}
