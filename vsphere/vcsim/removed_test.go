package vcsim_test

import (
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func (c *client) events(t testing.TB, filter types.EventFilterSpec) []types.BaseEvent {
	t.Helper()
	res, err := methods.QueryEvents(c.ctx, c.Client.Client, &types.QueryEvents{This: *c.ServiceContent.EventManager, Filter: filter})
	ok(t, err)
	return res.Returnval
}

// removal returns the event chain of a VM's removal: the descriptionIds of its tasks, the user, and whether a host was removed.
func (c *client) removal(t testing.TB, moRef string) (tasks []string, user string, host bool) {
	t.Helper()
	for _, e := range c.events(t, types.EventFilterSpec{EventTypeId: []string{"VmRemovedEvent"}}) {
		removed := e.GetEvent()
		if removed.Vm.Vm.Value != moRef {
			continue
		}
		user = removed.UserName
		for _, e := range c.events(t, types.EventFilterSpec{EventChainId: removed.ChainId}) {
			switch e := e.(type) {
			case *types.TaskEvent:
				tasks = append(tasks, e.Info.DescriptionId)
			case *types.HostRemovedEvent:
				host = true
			}
		}
	}
	return tasks, user, host
}

func allNamed(vms []vcsim.VM, name string) (found []vcsim.VM) {
	for _, vm := range vms {
		if vm.Name == name {
			found = append(found, vm)
		}
	}
	return found
}

func TestRemovalEventsAreChainedToTheirTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		c := login(t, v)
		destroyed, unregistered, hosted := c.clone(t, "a").Reference(), c.clone(t, "b").Reference(), c.clone(t, "c")
		task, err := hosted.PowerOn(c.ctx)
		ok(t, err)
		ok(t, task.Wait(c.ctx))
		ok(t, v.Destroy("a"))
		ok(t, v.Unregister("b"))
		if v.Unregister("c") == nil {
			t.Error("a powered-on VM was unregistered")
		}
		ok(t, v.RemoveHost("/DC0/host/DC0_C0/DC0_C0_H0"))
		for moRef, want := range map[string]string{destroyed.Value: "VirtualMachine.destroy", unregistered.Value: "VirtualMachine.unregister",
			hosted.Reference().Value: "HostSystem.destroy"} {
			tasks, user, host := c.removal(t, moRef)
			if !slices.Equal(tasks, []string{want}) || user == "" || host != (want == "HostSystem.destroy") {
				t.Errorf("%s: tasks %v by %q, host removed: %v", want, tasks, user, host)
			}
		}
	})
}

func TestVMsOfARemovedHostKeepRunningAndReturnWithNewMoRefs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Hosts: 2, Guest: vcsim.Guest{Tools: true, Boot: time.Second}})
		c := login(t, v)
		vm := c.clone(t, "a")
		ok(t, v.SetExtraConfig("a", "key", "value"))
		ok(t, v.PowerOn("a"))
		time.Sleep(time.Minute)
		d, err := v.Details("a")
		ok(t, err)
		ok(t, v.RemoveHost(d.Host))
		var dead mo.VirtualMachine
		if err := vm.Properties(c.ctx, vm.Reference(), []string{"name"}, &dead); err == nil {
			t.Error("the VM is still in the inventory")
		}
		if away := v.OutsideInventory(); len(away) != 1 || away[0].Name != "a" || away[0].Power != types.VirtualMachinePowerStatePoweredOn {
			t.Fatalf("outside the inventory: %+v", away)
		}
		c.clone(t, "b") // on the remaining host
		ok(t, v.AddHost(path.Base(d.Host)))
		back := allNamed(v.VMs(), "a")
		if len(back) != 1 || len(v.OutsideInventory()) != 0 {
			t.Fatalf("back: %+v, outside the inventory: %+v", back, v.OutsideInventory())
		}
		if b := back[0]; b.Ref == d.Ref || b.InstanceUUID != d.InstanceUUID || b.ExtraConfig["key"] != "value" || b.Power != d.Power ||
			!b.Tools || b.Path != "/DC0/vm/Discovered virtual machine/a" {
			t.Errorf("before: %+v, after: %+v", d.VM, b)
		}
		ok(t, v.PowerOff("a"))
		ok(t, v.Destroy("a"))
	})
}

func TestReregisteredVMHasANewMoRef(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		was := login(t, v).clone(t, "a").Reference()
		_, err := v.AddSnapshot("a", "by hand")
		ok(t, err)
		ok(t, v.Unregister("a"))
		ok(t, v.Register(v.OutsideInventory()[0].InstanceUUID))
		ok(t, v.RemoveSnapshots("a"))
		if back := allNamed(v.VMs(), "a"); len(back) != 1 || back[0].Ref == was || back[0].Path != "/DC0/vm/a" || len(v.OutsideInventory()) != 0 {
			t.Errorf("%+v", back)
		}
	})
}

func TestRestoreForgetsNewerVMsAndEventsAndReusesMoRefs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		c := login(t, v)
		c.clone(t, "old")
		backup := v.Backup()
		lost := c.clone(t, "new").Reference()
		ok(t, v.PowerOn("new"))
		tag, err := v.AddTag("env", "prod")
		ok(t, err)
		ok(t, c.rest(t, v).AttachTag(c.ctx, tag, lost))
		latest := func(c *client) *types.Event {
			var m mo.EventManager
			ok(t, c.RetrieveOne(c.ctx, *c.ServiceContent.EventManager, []string{"latestEvent"}, &m))
			return m.LatestEvent.GetEvent()
		}
		before := latest(c)
		ok(t, v.Restore(backup))
		c = login(t, v)
		if after := latest(c); after.Key >= before.Key {
			t.Errorf("the newest event's key was %d and is now %d", before.Key, after.Key)
		}
		if away := v.OutsideInventory(); len(allNamed(v.VMs(), "old")) != 1 || len(allNamed(v.VMs(), "new")) != 0 || len(away) != 1 || away[0].Power != "poweredOn" {
			t.Errorf("outside the inventory: %+v", away)
		}
		if tasks, user, _ := c.removal(t, lost.Value); user != "" || tasks != nil {
			t.Errorf("an event reports the removal by %s: %v", user, tasks)
		}
		if again := c.clone(t, "other").Reference(); again != lost {
			t.Errorf("the next VM is %s, not %s", again, lost)
		}
		if names, err := v.TagsOf("other"); err != nil || len(names) > 0 {
			t.Errorf("it has the tags %v of another VM (%v)", names, err)
		}
		ok(t, v.Register(v.OutsideInventory()[0].InstanceUUID))
		if back := allNamed(v.VMs(), "new"); len(back) != 1 || back[0].Ref == lost || back[0].Power != "poweredOn" {
			t.Errorf("registered again: %+v", back)
		}
	})
}

func TestAVMThatLeftWhileACallWaitedIsNotFound(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		busy := object.NewVirtualMachine(c.Client.Client, addVM(t, v, "/DC0/vm", "busy"))
		vm := object.NewVirtualMachine(c.Client.Client, addVM(t, v, "/DC0/vm", "vm"))
		into := makeFolder(t, v, "/DC0/vm/folder")
		moves, err := busy.Relocate(c.ctx, types.VirtualMachineRelocateSpec{Folder: &into}, types.VirtualMachineMovePriorityDefaultPriority)
		ok(t, err)
		time.Sleep(time.Millisecond) // the simulator is at work, and the world locked
		answers := make(chan error)
		for range 2 {
			go func() { answers <- vm.Unregister(c.ctx) }()
		}
		first, second := <-answers, <-answers
		if first != nil {
			first, second = second, first
		}
		ok(t, first)
		wantFault[*types.ManagedObjectNotFound](t, second)
		if n := len(v.OutsideInventory()); n != 1 {
			t.Errorf("%d VMs are outside the inventory", n)
		}
		ok(t, moves.Wait(c.ctx))
	})
}
