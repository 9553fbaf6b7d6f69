package vcsim_test

import (
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

func allNamed(vms []vcsim.VM, name string) (found []vcsim.VM) {
	for _, vm := range vms {
		if vm.Name == name {
			found = append(found, vm)
		}
	}
	return found
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
