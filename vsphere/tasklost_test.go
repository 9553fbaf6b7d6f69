package vsphere

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// vCenter 8.0.1 keeps completed tasks for 60 s, so a task that ends during a longer outage is lost.
func TestAStepWhoseTaskIsLostIsAsItsObjectIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind vcsim.Kind
		call string
		step func(p *process) plan.Action
		came func(p *process, a plan.Action) bool
	}{
		"clone": {vcsim.Clone, "CloneVM_Task", func(p *process) plan.Action { return p.shaped(0, v1alpha1.VmGroupSpec{}) },
			func(p *process, a plan.Action) bool { return len(p.state().VMs) == 1 }},
		"power on": {vcsim.PowerOn, "PowerOnVM_Task", func(p *process) plan.Action { return actionOn(plan.PowerOn, p.member(0)) },
			func(p *process, a plan.Action) bool { return p.vm(a.MoRef).Power == plan.PoweredOn }},
		"power off": {vcsim.PowerOff, "PowerOffVM_Task", func(p *process) plan.Action { return actionOn(plan.PowerOff, p.running(0, false)) },
			func(p *process, a plan.Action) bool { return p.vm(a.MoRef).Power == plan.PoweredOff }},
		"destroy": {vcsim.Destroy, "Destroy_Task", func(p *process) plan.Action { return actionOn(plan.Destroy, p.member(0)) },
			func(p *process, a plan.Action) bool { return len(p.state().VMs) == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, p := placed(t, vcsim.Config{})
				a := c.step(p)
				w.Hold(c.kind)
				done := make(chan error, 1)
				go func() { done <- p.Do(context.Background(), web, a) }()
				time.Sleep(time.Minute)
				w.Down()
				w.Release(c.kind)
				time.Sleep(2 * time.Minute)
				w.ForgetTasks()
				w.Up()
				if err := <-done; err != nil {
					t.Errorf("the step failed: %v", err)
				}
				if !c.came(p, a) {
					t.Errorf("after the task was lost, the group has the members %+v; want the step done", p.state().VMs)
				}
				if n := w.Calls()[c.call]; n > 2 {
					t.Errorf("%s was called %d times; want at most 2", c.call, n)
				}
			})
		})
	}
}
