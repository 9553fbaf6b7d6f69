package vsphere

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestVCentersEventsTellWhoPoweredOffOrRemovedAVM(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start()
		p.do(plan.Action{Op: plan.CreateFolder})
		p.do(p.cloning(0))
		p.do(p.cloning(1))
		ctx, vms := context.Background(), p.sight().VMs
		admin := object.NewVirtualMachine(w.Admin().Client, vmRef(vms[0].MoRef))
		for _, do := range []func(context.Context) (*object.Task, error){admin.PowerOn, admin.PowerOff, admin.Destroy} {
			task, err := do(ctx)
			w.must(err)
			w.must(task.Wait(ctx))
		}
		for _, deed := range []plan.Deed{plan.DeedPoweredOff, plan.DeedRemoved} {
			who, err := p.Who(ctx, deed, []string{vms[0].MoRef, vms[1].MoRef})
			if err != nil || len(who) != 1 || who[vms[0].MoRef] == "" {
				t.Errorf("%s: %v %v", deed, who, err)
			}
			t.Log(deed, who)
		}
		if who, err := p.Who(ctx, plan.DeedRemoved, []string{"vm-none"}); err != nil || len(who) > 0 {
			t.Errorf("of a VM that nothing befell: %v %v", who, err)
		}
	})
}
