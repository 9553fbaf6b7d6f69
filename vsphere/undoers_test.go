package vsphere

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestVCentersEventsNameWhoUndidAChange(t *testing.T) {
	const (
		admin = "Administrator@VSPHERE.LOCAL"
		own   = "its events name only the server's own account, which another tool may use"
	)
	byServer := func(p *process, cluster vim.ManagedObjectReference, spec *vim.ClusterConfigSpecEx) {
		p.world.must(p.Call(p.t.Context(), func(ctx context.Context, s *session.Session) error {
			task, err := object.NewClusterComputeResource(s.Vim, cluster).Reconfigure(ctx, spec, true)
			p.world.must(err)
			return task.Wait(ctx)
		}))
	}
	for name, c := range map[string]struct {
		undo  func(w *world, p *process, spec vim.ClusterConfigSpecEx)
		again time.Duration // ago
		fault vim.BaseMethodFault
		want  string
	}{
		"another account": {again: time.Minute, want: "its events name who reconfigured the cluster since: " + admin,
			undo: func(w *world, _ *process, spec vim.ClusterConfigSpecEx) { w.change(firstCluster, spec) }},
		"the server's account, after another one's change before that": {again: 30 * time.Second, want: own,
			undo: func(w *world, p *process, spec vim.ClusterConfigSpecEx) {
				w.change(firstCluster, vim.ClusterConfigSpecEx{})
				time.Sleep(time.Minute)
				byServer(p, w.at(firstCluster), &spec)
			}},
		"the server's account, beside another one's change of another cluster": {again: time.Minute, want: own,
			undo: func(w *world, p *process, spec vim.ClusterConfigSpecEx) {
				byServer(p, w.at(firstCluster), &spec)
				w.change(secondCluster, vim.ClusterConfigSpecEx{})
			}},
		"an account whose event vCenter doesn't show": {again: time.Minute, fault: &vim.NoPermission{},
			undo: func(w *world, _ *process, spec vim.ClusterConfigSpecEx) { w.change(firstCluster, spec) }},
		"the first time": {
			undo: func(w *world, _ *process, spec vim.ClusterConfigSpecEx) { w.change(firstCluster, spec) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, p := apart(t, 2)
				p.do(settingRules(preferred))
				rules, err := w.Rules(firstCluster)
				w.must(err)
				time.Sleep(time.Hour)
				c.undo(w, p, vim.ClusterConfigSpecEx{RulesSpec: []vim.ClusterRuleSpec{{
					ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: vim.ArrayUpdateOperationRemove, RemoveKey: rules[0].Key}}}})
				time.Sleep(10 * time.Second)
				p.reader.TouchClusters()
				p.until("the rule is seen to be off", func() bool { return p.off(preferred) })
				if c.fault != nil {
					w.FailCall("CreateCollectorForEvents", c.fault, 1)
				}
				a := settingRules(preferred)
				if c.again > 0 {
					a.Again = time.Now().Add(-c.again)
				}
				before := w.Calls()["CreateCollectorForEvents"]
				took, err := p.VCenter.Do(t.Context(), web, a)
				if err != nil || took.Undoers != c.want {
					t.Errorf("got %q, %v; want %q", took.Undoers, err, c.want)
				}
				if asked := w.Calls()["CreateCollectorForEvents"] - before; (asked == 1) != (c.again > 0) {
					t.Errorf("the events were queried %d times; want once if the step is repeated, or else never", asked)
				}
				w.ruleIs(firstCluster, "[web-0 web-1]")
			})
		})
	}
}

func (w *world) at(path string) vim.ManagedObjectReference {
	w.t.Helper()
	at, err := w.Find(path)
	w.must(err)
	return at
}

// A VM's reconfiguration, and its new name, are events of the VM.
func TestVCentersEventsNameWhoUndidAChangeOfAVM(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		web0, web1 := p.member(0), p.member(1)
		began := time.Now()
		w.must(w.Reconfigure("web-0", vim.VirtualMachineConfigSpec{Annotation: "mine"}))
		w.must(w.Rename("web-0", "other"))
		p.until("the new name is seen", func() bool { return p.vm(web0.MoRef).Name == "other" })
		for _, c := range []struct {
			op    plan.Op
			moRef string
			want  string
		}{
			{plan.Reconfigure, web0.MoRef, "its events name who reconfigured the VM since: Administrator@VSPHERE.LOCAL"},
			{plan.Rename, web0.MoRef, "its events name who renamed the VM since: Administrator@VSPHERE.LOCAL"},
			{plan.Reconfigure, web1.MoRef, ""},
			{plan.Move, web0.MoRef, "look in vCenter's recent tasks for who moves the VM"},
			{plan.Reconfigure, "vm-none", ""},
		} {
			a := plan.Action{Op: c.op, Key: "web-0", MoRef: c.moRef, Again: began}
			var took plan.StepResult
			if got := p.step(web, a, &took).undoers(t.Context()); got != c.want {
				t.Errorf("%s of %s: got %q; want %q", c.op, c.moRef, got, c.want)
			}
		}
	})
}

// A tool may take back a change of all members of a large group, whose steps then ask at the same time.
func TestOneStepAtATimeAsksForItsUndoers(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		p, wire := w.startWired()
		vm, began := p.member(0), time.Now()
		w.must(w.Reconfigure("web-0", vim.VirtualMachineConfigSpec{Annotation: "mine"}))
		var collectors, most atomic.Int32
		wire.On(func(call vcsim.Call) vcsim.Break {
			switch call.Method {
			case "CreateCollectorForEvents":
				most.Store(max(most.Load(), collectors.Add(1)))
			case "DestroyCollector":
				collectors.Add(-1)
			}
			return vcsim.Break{}
		})
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				a := actionOn(plan.Reconfigure, vm)
				a.Again = began
				if p.step(web, a, new(plan.StepResult)).undoers(t.Context()) == "" {
					t.Error("undoers named no account; want the one that undid the change")
				}
			})
		}
		all.Wait()
		if most.Load() != 1 || collectors.Load() != 0 {
			t.Errorf("vCenter had up to %d collectors of events at once, and %d are left; want 1, and none", most.Load(), collectors.Load())
		}
	})
}
