package vcsim_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
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

// Found by TestChaos, seed 175.
func TestAHostThatComesBackSupportsWhatItDid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		c := login(t, v)
		c.clone(t, "a")
		ok(t, v.RemoveHost("/DC0/host/DC0_C0/DC0_C0_H0"))
		ok(t, v.AddHost("DC0_C0_H0"))
		vm := object.NewVirtualMachine(c.Client.Client, allNamed(v.VMs(), "a")[0].Ref)
		task, err := vm.UpgradeVM(c.ctx, "vmx-15")
		ok(t, err)
		ok(t, task.Wait(c.ctx))
	})
}
