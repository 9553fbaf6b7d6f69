package vsphere

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// settled returns a VM without the fields that a repeated step can change: the changeVersion, the time of a shutdown request, and Tools, which stop
// at a reset.
func settled(vm plan.VM) plan.VM {
	vm.ChangeVersion, vm.Shutdown, vm.Tools = "", plan.Moment{}, false
	return vm
}

// again repeats a step, which must succeed, or fail because the changeVersion is out of date.
func (p *process) again(a plan.Action) {
	p.t.Helper()
	err := p.Do(context.Background(), web, a)
	var f *vcfault.Error
	if err != nil && (!errors.As(err, &f) || f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient) {
		p.t.Errorf("the repeated %s ended with %v; want success, or %s", a.Op, err, vcfault.ReasonConcurrentAccess)
	}
}

func TestAStepRepeatedAfterItsSuccessChangesNothing(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		w.Behave(func(b *vcsim.Behavior) { b.HangShutdown = func(vcsim.VM) bool { return true } })
		moRef := p.member(0).MoRef
		home, quarantine := p.state().Folder, p.makeQuarantine()
		for _, c := range []struct {
			what string
			plan func(vm plan.VM) plan.Action
			done func(vm plan.VM) bool
		}{
			{"resize", func(vm plan.VM) plan.Action { return sized(vm, false, 4, 2048) }, func(vm plan.VM) bool { return vm.CPU == 4 && vm.MemoryMB == 2048 }},
			{"power on", func(vm plan.VM) plan.Action { return actionOn(plan.PowerOn, vm) }, func(vm plan.VM) bool { return vm.Power == plan.PoweredOn }},
			{"shut down", func(vm plan.VM) plan.Action { return guarded(plan.ShutdownGuest, vm) }, func(vm plan.VM) bool { return !vm.Shutdown.At.IsZero() }},
			{"reset", func(vm plan.VM) plan.Action { return guarded(plan.Reset, vm) }, func(vm plan.VM) bool { return !vm.Restarted.IsZero() }},
			{"mark", func(vm plan.VM) plan.Action { return guarded(plan.Mark, vm) }, func(vm plan.VM) bool { return vm.Marked }},
			{"power off", func(vm plan.VM) plan.Action { return actionOn(plan.PowerOff, vm) }, func(vm plan.VM) bool { return vm.Power == plan.PoweredOff }},
			{"quarantine", func(vm plan.VM) plan.Action { return guarded(plan.Quarantine, vm) }, func(vm plan.VM) bool { return !vm.Quarantined.IsZero() }},
			{"rename", func(vm plan.VM) plan.Action { return renaming(vm, "web-0-x") }, func(vm plan.VM) bool { return vm.Name == "web-0-x" }},
			{"move", func(vm plan.VM) plan.Action { return moving(vm, quarantine) }, func(vm plan.VM) bool { return vm.Folder == quarantine }},
			{"move back", func(vm plan.VM) plan.Action { return moving(vm, home) }, func(vm plan.VM) bool { return vm.Folder == home }},
			{"unmark", func(vm plan.VM) plan.Action { return guarded(plan.Unmark, vm) }, func(vm plan.VM) bool { return !vm.Marked && vm.Quarantined.IsZero() }},
			{"release", func(vm plan.VM) plan.Action { return guarded(plan.Release, vm) }, func(vm plan.VM) bool { return vm.MoRef == "" }},
		} {
			if c.what == "shut down" {
				w.must(w.SetTools("web-0", true))
				p.until("the tools are seen", func() bool { return p.vm(moRef).Tools })
			}
			before := p.vm(moRef)
			if c.done(before) {
				t.Fatalf("%s: the step's effect is there before the step: %+v", c.what, before)
			}
			a := c.plan(before)
			p.do(a)
			first := p.vm(moRef)
			if !c.done(first) {
				t.Fatalf("%s: got the member %+v when the step returned; want the step's effect", c.what, first)
			}
			p.again(a)
			if second := p.vm(moRef); !reflect.DeepEqual(settled(first), settled(second)) {
				t.Errorf("%s: the member was %+v, and is %+v after the retry; want no change", c.what, first, second)
			}
		}
		if n := w.Calls()["ResetVM_Task"]; n != 1 {
			t.Errorf("the member was reset %d times; want once", n)
		}
	})
}

func TestTheNextPlanMakesUpForAStepWithALostReply(t *testing.T) {
	t.Parallel()
	marked := func(p *process, vm plan.VM) plan.VM {
		p.do(guarded(plan.Mark, vm))
		return p.vm(vm.MoRef)
	}
	running := func(p *process, vm plan.VM) plan.VM {
		p.world.Behave(func(b *vcsim.Behavior) { b.HangShutdown = func(vcsim.VM) bool { return true } })
		p.do(actionOn(plan.PowerOn, vm))
		p.world.must(p.world.SetTools(vm.Name, true))
		p.until("the tools are seen", func() bool { return p.vm(vm.MoRef).Tools })
		return p.vm(vm.MoRef)
	}
	for name, c := range map[string]struct {
		method string
		before func(*process, plan.VM) plan.VM
		plan   func(vm plan.VM) plan.Action
		done   func(vm plan.VM) bool
		most   int // calls of the method
	}{
		"mark": {"ReconfigVM_Task", nil, func(vm plan.VM) plan.Action { return guarded(plan.Mark, vm) },
			func(vm plan.VM) bool { return vm.Marked }, 1},
		"unmark": {"ReconfigVM_Task", marked, func(vm plan.VM) plan.Action { return guarded(plan.Unmark, vm) },
			func(vm plan.VM) bool { return !vm.Marked }, 2},
		"quarantine": {"ReconfigVM_Task", marked, func(vm plan.VM) plan.Action { return guarded(plan.Quarantine, vm) },
			func(vm plan.VM) bool { return !vm.Quarantined.IsZero() }, 2},
		"resize": {"ReconfigVM_Task", nil, func(vm plan.VM) plan.Action { return sized(vm, false, 4, 2048) },
			func(vm plan.VM) bool { return vm.CPU == 4 && vm.MemoryMB == 2048 }, 1},
		"the stamp of a shutdown": {"ReconfigVM_Task", running, func(vm plan.VM) plan.Action { return guarded(plan.ShutdownGuest, vm) },
			func(vm plan.VM) bool { return vm.Shutdown.Boot.Equal(vm.BootTime) && !vm.Shutdown.At.IsZero() }, 1},
		"reset": {"ResetVM_Task", running, func(vm plan.VM) plan.Action { return guarded(plan.Reset, vm) },
			func(vm plan.VM) bool { return !vm.Restarted.IsZero() && vm.Power == plan.PoweredOn }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world, p *process) {
				vm := p.member(0)
				if c.before != nil {
					vm = c.before(p, vm)
				}
				before := w.Calls()[c.method]
				w.LoseReply(c.method, 1)
				if f := p.fault(c.plan(vm)); f.Reason != vcfault.ReasonVCenterUnreachable || !f.Transient {
					t.Errorf("got the fault %+v; want %s, transient", f, vcfault.ReasonVCenterUnreachable)
				}
				time.Sleep(5 * time.Second) // as the loop backs off before it plans again
				p.until("the step that was planned again is done", func() bool {
					now, known := p.vm(vm.MoRef), p.state().Known
					if !known || c.done(now) || p.reader.Busy(inventory.VMRef(vm.MoRef)) {
						return known && c.done(now)
					}
					p.replanned(c.plan(now))
					return false
				})
				p.again(c.plan(vm)) // by an earlier plan
				if now := p.vm(vm.MoRef); !c.done(now) {
					t.Errorf("got the member %+v; want the step's effect", now)
				}
				if n := w.Calls()[c.method] - before; n > c.most+1 { // the repetition may cost one call that vCenter refuses
					t.Errorf("%s was called %d times; want at most %d", c.method, n, c.most+1)
				}
			})
		})
	}
}

// replanned carries out a step, which may fail only with a transient fault.
func (p *process) replanned(a plan.Action) {
	p.t.Helper()
	err := p.Do(context.Background(), web, a)
	var f *vcfault.Error
	if err != nil && (!errors.As(err, &f) || !f.Transient) {
		p.t.Errorf("%s ended with %v; want success, or a transient fault", a.Op, err)
	}
}

func TestAChangeBetweenReadAndStepIsNotOverwritten(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		w.must(w.SetHotAdd("ubuntu", true, true))
		p := w.start()
		off, on, marked := p.member(0), p.running(1, true), p.member(2)
		p.do(guarded(plan.Mark, marked))
		for what, c := range map[string]struct {
			of   plan.VM
			plan func(vm plan.VM) plan.Action
		}{
			"mark":       {off, func(vm plan.VM) plan.Action { return guarded(plan.Mark, vm) }},
			"unmark":     {marked, func(vm plan.VM) plan.Action { return guarded(plan.Unmark, vm) }},
			"quarantine": {marked, func(vm plan.VM) plan.Action { return guarded(plan.Quarantine, vm) }},
			"release":    {on, func(vm plan.VM) plan.Action { return guarded(plan.Release, vm) }},
			"reset":      {on, func(vm plan.VM) plan.Action { return guarded(plan.Reset, vm) }},
			"resize":     {off, func(vm plan.VM) plan.Action { return sized(vm, false, 4, 2048) }},
			"resize hot": {on, func(vm plan.VM) plan.Action { return sized(vm, true, 4, 2048) }},
		} {
			p.until("no read of the member is pending", func() bool { return !p.reader.Busy(inventory.VMRef(c.of.MoRef)) })
			before := p.vm(c.of.MoRef)
			stamp, a := w.stampOf(before.Name), c.plan(before)
			w.must(w.SetExtraConfig(before.Name, "admin", what))
			for _, when := range []string{"at once", "when it was read"} {
				if f := p.fault(a); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient || f.NeedsOperator {
					t.Errorf("%s, %s: got the fault %+v; want %s, transient", what, when, f, vcfault.ReasonConcurrentAccess)
				}
				p.until("the change is read", func() bool { return p.vm(before.MoRef).ChangeVersion != before.ChangeVersion })
			}
			if now := p.vm(before.MoRef); w.stampOf(before.Name) != stamp || !reflect.DeepEqual(settled(now), settled(before)) {
				t.Errorf("%s: the member was %+v, and is %+v with the stamp %s; want no change", what, before, now, w.stampOf(before.Name))
			}
		}
		if n := w.Calls()["ResetVM_Task"]; n != 0 {
			t.Errorf("the member was reset %d times; want never", n)
		}
	})
}

func TestEveryStepKeepsWhatANewerServerWroteIntoTheStamp(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		w.Behave(func(b *vcsim.Behavior) { b.HangShutdown = func(vcsim.VM) bool { return true } })
		vm := p.running(0, true)
		w.must(w.SetExtraConfig("web-0", stamp.Key, strings.Replace(w.stampOf("web-0"), `{`, `{"zone":{"b":[1,2]},`, 1)))
		p.until("the change is read", func() bool { return p.vm(vm.MoRef).ChangeVersion != vm.ChangeVersion })
		for _, op := range []plan.Op{plan.ShutdownGuest, plan.Reset, plan.Mark, plan.PowerOff, plan.Quarantine, plan.Unmark} {
			p.do(guarded(op, p.vm(vm.MoRef)))
			if text := w.stampOf("web-0"); !strings.Contains(text, `"zone":{"b":[1,2]}`) {
				t.Errorf("after %s, the stamp is %s; want it to keep the unknown key", op, text)
			}
		}
	})
}

// A member whose mark is withdrawn may be about to shut down. Its stamp must keep the record of the request; otherwise the member counts as serving
// and another one is taken down. A request from before the VM's last power-on no longer counts.
func TestAMemberThatIsWantedAfterAllIsStillKnownToBeHalting(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		w.Behave(func(b *vcsim.Behavior) { b.HangShutdown = func(vcsim.VM) bool { return true } })
		vm := p.running(0, true)
		mark := guarded(plan.Mark, vm)
		mark.Args = plan.MarkArgs{Reason: plan.MarkReasonUpdate}
		p.do(mark)
		ask := guarded(plan.ShutdownGuest, p.vm(vm.MoRef))
		ask.Marked = true
		began := time.Now().Truncate(time.Second)
		p.do(ask)
		asked := p.vm(vm.MoRef)
		if at := asked.Shutdown.At; at.Before(began) || at.After(time.Now().Add(time.Second)) || asked.MarkReason != plan.MarkReasonUpdate {
			t.Fatalf("got the member %+v; want the time of the request to shut down, and %s", asked, plan.MarkReasonUpdate)
		}
		p.do(guarded(plan.Unmark, asked))
		if back := p.vm(vm.MoRef); back.Shutdown != asked.Shutdown || back.Marked || back.MarkReason != "" || back.Power != plan.PoweredOn {
			t.Errorf("got the member %+v; want it on, without a mark, and with the record of the shutdown request", back)
		}
		p.do(actionOn(plan.PowerOff, p.vm(vm.MoRef)))
		p.do(actionOn(plan.PowerOn, p.vm(vm.MoRef)))
		p.do(guarded(plan.Mark, p.vm(vm.MoRef)))
		p.do(guarded(plan.Unmark, p.vm(vm.MoRef)))
		for _, key := range []string{"shutdown", "why", "quarantined"} {
			if text := w.stampOf("web-0"); strings.Contains(text, `"`+key+`"`) {
				t.Errorf("the stamp still has %s: %s", key, text)
			}
		}
	})
}
