package vsphere

import (
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestAnEmptyFolderThatVCenterRefusesToRemoveStaysAndSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse func(*world)
		says   string
	}{
		"without the privilege": {func(w *world) { w.Deny("UnregisterAndDestroy_Task", "Folder.Delete") }, "Folder.Delete"},
		"disabled":              {func(w *world) { w.FailCall("UnregisterAndDestroy_Task", &types.MethodDisabled{}, 0) }, "disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world, p *process) {
				p.do(plan.Action{Op: plan.CreateFolder})
				c.refuse(w)
				if f := p.fault(p.removing()); f.Reason != plan.ReasonFolderStays || f.NeedsOperator || !f.Transient || !strings.Contains(f.Message, c.says) {
					t.Errorf("got the fault %+v; want %s, without an operator, transient, with %q", f, plan.ReasonFolderStays, c.says)
				}
				if p.state().Folder == "" {
					t.Error("the inventory has lost the group's folder, whose removal vCenter refused")
				}
				w.Heal()
				p.do(p.removing())
			})
		})
	}
}

// govmomi's simulator lacks the method.
func TestAnEmptyFolderIsRemovedWhereVCenterLacksTheMethod(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		p.do(plan.Action{Op: plan.CreateFolder})
		w.FailCall("UnregisterAndDestroy_Task", &types.MethodNotFound{Method: "UnregisterAndDestroy_Task"}, 0)
		p.do(p.removing())
		if folder := p.state().Folder; folder != "" {
			t.Errorf("the group's folder is still known as %s after its removal; want none", folder)
		}
	})
}
