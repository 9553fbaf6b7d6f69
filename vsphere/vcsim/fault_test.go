package vcsim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestInjectedTaskFaultsComeAfterTheLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const latency = 40 * time.Second
		v := start(t, vcsim.Config{Latency: vcsim.Latency{Clone: latency}})
		c := login(t, v)
		v.FailTask(vcsim.Clone, func(name string) bool { return name == "bad" }, new(types.InsufficientResourcesFault), 2)
		began := time.Now()
		for range 2 {
			wantFault[*types.InsufficientResourcesFault](t, c.startClone(t, "bad").Wait(c.ctx))
			c.clone(t, "good-"+time.Now().String())
		}
		if took := time.Since(began); took < 4*latency {
			t.Errorf("2 failing and 2 successful clones took %v", took)
		}
		c.clone(t, "bad")
	})
}

func TestEveryKindOfTaskCanFail(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		folder := object.NewFolder(c.Client.Client, makeFolder(t, v, "/DC0/vm/folder"))
		vm := object.NewVirtualMachine(c.Client.Client, addVM(t, v, "/DC0/vm", "vm"))
		for kind, begin := range map[vcsim.Kind]func() (*object.Task, error){
			vcsim.PowerOn:       func() (*object.Task, error) { return vm.PowerOn(c.ctx) },
			vcsim.PowerOff:      func() (*object.Task, error) { return vm.PowerOff(c.ctx) },
			vcsim.Suspend:       func() (*object.Task, error) { return vm.Suspend(c.ctx) },
			vcsim.Reset:         func() (*object.Task, error) { return vm.Reset(c.ctx) },
			vcsim.Reconfigure:   func() (*object.Task, error) { return vm.Reconfigure(c.ctx, types.VirtualMachineConfigSpec{}) },
			vcsim.Rename:        func() (*object.Task, error) { return vm.Rename(c.ctx, "x") },
			vcsim.Destroy:       func() (*object.Task, error) { return vm.Destroy(c.ctx) },
			vcsim.RenameFolder:  func() (*object.Task, error) { return folder.Rename(c.ctx, "x") },
			vcsim.DestroyFolder: func() (*object.Task, error) { return folder.Destroy(c.ctx) },
			vcsim.MoveInto: func() (*object.Task, error) {
				return folder.MoveInto(c.ctx, []types.ManagedObjectReference{vm.Reference()})
			},
		} {
			v.FailTask(kind, nil, &types.SystemError{Reason: string(kind)}, 0)
			for range 2 {
				task, err := begin()
				ok(t, err)
				if f := wantFault[*types.SystemError](t, task.Wait(c.ctx)); f.Reason != string(kind) {
					t.Errorf("%s failed with %s", kind, f.Reason)
				}
				var info mo.Task
				ok(t, c.RetrieveOne(c.ctx, task.Reference(), []string{"info"}, &info))
				if info.Info.DescriptionId != string(kind) {
					t.Errorf("%s has the descriptionId %s", kind, info.Info.DescriptionId)
				}
			}
		}
		ok(t, v.PowerOn("vm")) // no faults for the admin
		ok(t, v.SetTools("vm", true))
		v.FailTask(vcsim.ShutdownGuest, nil, new(types.ToolsUnavailable), 0)
		ok(t, vm.ShutdownGuest(c.ctx))
		synctest.Wait() // the shutdown has failed
		v.Heal()
		task, err := vm.Rename(c.ctx, "healed")
		ok(t, err)
		ok(t, task.Wait(c.ctx))
		if state := theVM(t, v, "healed").Power; state != types.VirtualMachinePowerStatePoweredOn {
			t.Errorf("the VM of a guest that does not halt is %s", state)
		}
	})
}

func TestInjectedFaultsFailCalls(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		v.FailCall("CloneVM_Task", new(types.HostCommunication), 2)
		for range 2 {
			_, err := c.template.Clone(c.ctx, c.folder, "vm", c.cloneSpec(nil))
			wantFault[*types.HostCommunication](t, err)
		}
		c.clone(t, "vm")
		if n := v.Calls()["CloneVM_Task"]; n != 3 {
			t.Errorf("CloneVM_Task was called %d times, want 3", n)
		}
		if n := len(v.VMs()); n != 2 {
			t.Errorf("got %d VMs", n)
		}
	})
}

func TestLoseReplyStillExecutesTheCall(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		v.LoseReply("CloneVM_Task", 1)
		if _, err := c.template.Clone(c.ctx, c.folder, "vm", c.cloneSpec(nil)); err == nil {
			t.Error("the call got a reply")
		}
		eventually(t, "the clone exists", func() bool { return len(v.VMs()) == 2 })
		wantFault[*types.DuplicateName](t, c.startClone(t, "vm").Wait(c.ctx))
	})
}

func TestDenyNamesThePrivilege(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		v.Deny("CloneVM_Task", "VirtualMachine.Provisioning.DeployTemplate")
		_, err := c.template.Clone(c.ctx, c.folder, "vm", c.cloneSpec(nil))
		f := wantFault[*types.NoPermission](t, err)
		if f.PrivilegeId != "VirtualMachine.Provisioning.DeployTemplate" || f.Object == nil || *f.Object != c.template.Reference() {
			t.Errorf("got %+v", f)
		}
		v.Allow("CloneVM_Task")
		c.clone(t, "vm")
	})
}

func TestSimulatorPanicBecomesATaskFault(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		task, err := c.folder.CreateVM(c.ctx, types.VirtualMachineConfigSpec{
			Name: "vm", Files: &types.VirtualMachineFileInfo{VmPathName: "[no such datastore]"},
		}, object.NewResourcePool(c.Client.Client, c.pool), nil)
		ok(t, err)
		wantFault[*types.SystemError](t, task.Wait(c.ctx))
		addVM(t, v, "/DC0/vm", "vm")
	})
}
