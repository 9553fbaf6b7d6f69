package vsphere

import (
	"slices"
	"strings"
	"testing"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
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

// A VM whose configuration vCenter doesn't show may be one whose clone is running. If none is, somebody has to look.
func TestANameThatAVMWithoutConfigurationHasNeedsAnOperatorUnlessACloneRuns(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		p.do(plan.Action{Op: plan.CreateFolder})
		holder, err := w.AddVM("/DC0/vm/vm-operator/shop/web", "web-0")
		w.must(err)
		w.ChangeReads(func(o *vim.ObjectContent) {
			if o.Obj == holder {
				o.PropSet = slices.DeleteFunc(o.PropSet, func(x vim.DynamicProperty) bool { return strings.HasPrefix(x.Name, "config.") })
			}
		})
		two := w.start()
		w.SetLatency(vcsim.Latency{Clone: time.Minute})
		ended := two.begun(two.cloning(1))
		time.Sleep(time.Second)
		if f := two.fault(two.cloning(0)); f.Reason != plan.ReasonCloneRunning || f.NeedsOperator {
			t.Errorf("while a clone runs, got the fault %+v; want %s, without an operator", f, plan.ReasonCloneRunning)
		}
		w.must(<-ended)
		if f := two.fault(two.cloning(0)); f.Reason != vcfault.ReasonNameConflict || !f.NeedsOperator || !strings.Contains(f.Message, holder.Value) {
			t.Errorf("got the fault %+v; want %s, for an operator, that names %s", f, vcfault.ReasonNameConflict, holder.Value)
		}
	})
}
