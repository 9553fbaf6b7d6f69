package vcsim_test

import (
	"slices"
	"testing"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// theVM returns the VM with a name.
func theVM(t testing.TB, v *vcsim.VCenter, name string) vcsim.VM {
	t.Helper()
	vms := v.VMs()
	i := slices.IndexFunc(vms, func(vm vcsim.VM) bool { return vm.Name == name })
	if i < 0 {
		t.Fatalf("vCenter has no VM %s", name)
	}
	return vms[i]
}

func TestRunningCloneReservesItsNameButIsInvisible(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		v.Hold(vcsim.Clone)
		first := c.startClone(t, "vm")

		second := wantFault[*types.DuplicateName](t, c.startClone(t, "vm").Wait(c.ctx))
		if second.Name != "vm" || second.Object.Type != "VirtualMachine" {
			t.Errorf("the fault names %v with %q", second.Object, second.Name)
		}
		var holder mo.VirtualMachine
		wantFault[*types.ManagedObjectNotFound](t, c.RetrieveOne(c.ctx, second.Object, []string{"name"}, &holder))
		_, err := c.folder.CreateFolder(c.ctx, "vm")
		wantFault[*types.DuplicateName](t, err)
		wantFault[*types.DuplicateName](t, v.Rename(template, "vm"))
		if got := c.children(t, c.folder.Reference()); !slices.Equal(got, []string{template}) {
			t.Errorf("the folder lists %v; want %v", got, []string{template})
		}

		v.Release(vcsim.Clone)
		info, err := first.WaitForResult(c.ctx, nil)
		ok(t, err)
		third := wantFault[*types.DuplicateName](t, c.startClone(t, "vm").Wait(c.ctx))
		if third.Object != info.Result {
			t.Errorf("the fault names %v, want %v", third.Object, info.Result)
		}
	})
}
