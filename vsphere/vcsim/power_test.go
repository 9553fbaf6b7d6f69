package vcsim_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

type ctx = context.Context

// bootTime returns the boot time of the VM and its summary, or nil.
func (c *client) bootTime(t testing.TB, ref types.ManagedObjectReference) *time.Time {
	t.Helper()
	var vm mo.VirtualMachine
	ok(t, c.RetrieveOne(c.ctx, ref, []string{"runtime.bootTime", "summary.runtime.bootTime"}, &vm))
	here, there := vm.Runtime.BootTime, vm.Summary.Runtime.BootTime
	if (here == nil) != (there == nil) || here != nil && !here.Equal(*there) {
		t.Errorf("the VM has %v, its summary %v", here, there)
	}
	return here
}

func TestBootTimeIsTheTimeOfThePowerOn(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := addVM(t, v, "/DC0/vm", "vm")
		vm := object.NewVirtualMachine(c.Client.Client, ref)
		began := time.Now().Add(-time.Millisecond)
		if got := c.bootTime(t, ref); got != nil {
			t.Errorf("a VM that was never powered on has the boot time %v", got)
		}
		ok(t, v.PowerOn("vm"))
		first := c.bootTime(t, ref)
		if first == nil || first.Before(began) || first.After(time.Now()) || !theVM(t, v, "vm").Boot.Equal(*first) {
			t.Fatalf("got the boot times %v and %v", first, theVM(t, v, "vm").Boot)
		}
		for name, keep := range map[string]func(){
			"reset":            func() { wait(t, c, vm.Reset) },
			"suspend, resume":  func() { wait(t, c, vm.Suspend); c.bootTime(t, ref); wait(t, c, vm.PowerOn) },
			"reboot":           func() { ok(t, v.SetTools("vm", true)); ok(t, vm.RebootGuest(c.ctx)) },
			"failing power-on": func() { wantFault[*types.InvalidPowerState](t, v.PowerOn("vm")) },
			"failing power-off": func() {
				v.FailTask(vcsim.PowerOff, nil, new(types.SystemError), 1)
				task, err := vm.PowerOff(c.ctx)
				ok(t, err)
				wantFault[*types.SystemError](t, task.Wait(c.ctx))
			},
		} {
			keep()
			if got := c.bootTime(t, ref); got == nil || !got.Equal(*first) {
				t.Errorf("%s: got the boot time %v, want %v", name, got, first)
			}
		}
		ok(t, v.PowerOff("vm"))
		if got := c.bootTime(t, ref); got != nil || !theVM(t, v, "vm").Boot.IsZero() {
			t.Errorf("a powered-off VM has the boot time %v", got)
		}
	})
}

func TestEachPowerOnHasALaterBootTime(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := addVM(t, v, "/DC0/vm", "vm")
		vm := object.NewVirtualMachine(c.Client.Client, ref)
		var last time.Time
		for range 5 {
			ok(t, v.PowerOn("vm"))
			if boot := c.bootTime(t, ref); !boot.After(last) {
				t.Errorf("%v after %v", boot, last)
			} else {
				last = *boot
			}
			ok(t, v.SetTools("vm", true))
			ok(t, vm.ShutdownGuest(c.ctx))
			eventually(t, "the guest halts", func() bool { return theVM(t, v, "vm").Power == off })
			if got := c.bootTime(t, ref); got != nil {
				t.Errorf("a VM with a halted guest has the boot time %v", got)
			}
		}
	})
}

func TestStreamReportsTheBootTime(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := addVM(t, v, "/DC0/vm", "vm")
		w := c.watch(t, tree(c.ServiceContent.RootFolder, "runtime.bootTime"))
		w.next(t, 1)
		for _, change := range []func(string) error{v.PowerOn, v.PowerOff} {
			ok(t, change("vm"))
			if got := w.next(t, 5); len(got) != 1 || !strings.HasPrefix(got[0], "modify "+ref.Value+" runtime.bootTime=") {
				t.Errorf("the stream reported %v", got)
			}
		}
	})
}

func TestResetRestartsTheGuestOfAPoweredOnVM(t *testing.T) {
	inABubble(t, vcsim.Config{Guest: vcsim.Guest{Tools: true, Boot: 30 * time.Second}, Latency: vcsim.Latency{Power: 5 * time.Second}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		vm := object.NewVirtualMachine(c.Client.Client, addVM(t, v, "/DC0/vm", "vm"))
		reset := func() error {
			task, err := vm.Reset(c.ctx)
			ok(t, err)
			return task.Wait(c.ctx)
		}
		wantFault[*types.InvalidPowerState](t, reset())
		ok(t, v.PowerOn("vm"))
		eventually(t, "the guest is up", func() bool { return theVM(t, v, "vm").IP != "" })
		address := theVM(t, v, "vm").IP
		v.BreakGuests(named("vm")) // or it may be up again before the check
		began := time.Now()
		ok(t, reset())
		if took := time.Since(began); took < 5*time.Second {
			t.Errorf("the reset took %v", took)
		}
		wantGuest(t, v, "vm", false, false)
		v.BreakGuests(nil)
		ok(t, reset())
		eventually(t, "the guest is up again", func() bool { return theVM(t, v, "vm").IP == address })
		if state := theVM(t, v, "vm").Power; state != on {
			t.Errorf("the VM is %s", state)
		}
	})
}

func TestGuestShutdownAndRebootNeedTools(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		vm := object.NewVirtualMachine(c.Client.Client, addVM(t, v, "/DC0/vm", "vm"))
		for _, ask := range []func(ctx) error{vm.ShutdownGuest, vm.RebootGuest} {
			wantFault[*types.InvalidPowerState](t, ask(c.ctx))
			ok(t, v.PowerOn("vm"))
			wantFault[*types.ToolsUnavailable](t, ask(c.ctx))
			ok(t, v.SetTools("vm", true))
			ok(t, ask(c.ctx))
			eventually(t, "the tools stop", func() bool { return !theVM(t, v, "vm").Tools })
			_ = v.PowerOff("vm")
		}
	})
}

func TestHangingGuestIgnoresShutdown(t *testing.T) {
	inABubble(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		v.HangShutdown(named("hangs"))
		shutdown := func(name string) {
			ok(t, object.NewVirtualMachine(c.Client.Client, theVM(t, v, name).Ref).ShutdownGuest(c.ctx))
		}
		for _, name := range []string{"hangs", "halts"} {
			addVM(t, v, "/DC0/vm", name)
			ok(t, v.PowerOn(name))
		}
		v.Hold(vcsim.ShutdownGuest)
		shutdown("hangs")
		shutdown("halts")
		v.Release(vcsim.ShutdownGuest)
		eventually(t, "the other guest halts", func() bool { return theVM(t, v, "halts").Power == off })
		eventually(t, "both shutdowns are over", func() bool { return c.running(t, theVM(t, v, "hangs").Ref) == 0 })
		if state := theVM(t, v, "hangs").Power; state != on {
			t.Errorf("the VM of the hanging guest is %s", state)
		}
		v.HangShutdown(nil)
		shutdown("hangs")
		eventually(t, "the guest halts", func() bool { return theVM(t, v, "hangs").Power == off })
	})
}

// running counts an object's running tasks.
func (c *client) running(t testing.TB, ref types.ManagedObjectReference) (n int) {
	t.Helper()
	var e mo.ManagedEntity
	ok(t, c.RetrieveOne(c.ctx, ref, []string{"recentTask"}, &e))
	for _, ref := range e.RecentTask {
		var task mo.Task
		ok(t, c.RetrieveOne(c.ctx, ref, []string{"info"}, &task))
		if task.Info.State == types.TaskInfoStateRunning {
			n++
		}
	}
	return n
}

func TestGuestRestartCancelsAShutdown(t *testing.T) {
	inABubble(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := addVM(t, v, "/DC0/vm", "vm")
		ok(t, v.PowerOn("vm"))
		for _, restart := range []func(){
			func() { ok(t, v.Reset("vm")) },
			func() { ok(t, v.PowerOff("vm")); ok(t, v.PowerOn("vm")) },
		} {
			v.Hold(vcsim.ShutdownGuest)
			ok(t, object.NewVirtualMachine(c.Client.Client, ref).ShutdownGuest(c.ctx))
			restart()
			v.Release(vcsim.ShutdownGuest)
			eventually(t, "no task is running", func() bool { return c.running(t, ref) == 0 })
			if state := theVM(t, v, "vm").Power; state != on {
				t.Errorf("the VM is %s", state)
			}
		}
	})
}
