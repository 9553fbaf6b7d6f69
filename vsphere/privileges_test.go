package vsphere

import (
	"slices"
	"testing"

	"github.com/vmware/govmomi/find"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// restrictTo gives the server's account the least role without some privileges.
func (w *world) restrictTo(without ...string) {
	var ids []string
	for _, p := range role.Least() {
		if !slices.Contains(without, p.ID) {
			ids = append(ids, p.ID)
		}
	}
	w.Restrict(ids...)
}

func TestAMissingPrivilegeIsNamedWithThePathOfItsObject(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		p.made(0, v1alpha1.VmGroupSpec{})
		vm, clone := p.state().VMs[0], p.shaped(1, v1alpha1.VmGroupSpec{})
		const members = "the VMs in /DC0/vm/vm-operator/shop/web"
		find := find.NewFinder(w.Admin().Client)
		store, err := find.Datastore(t.Context(), "/DC0/datastore/LocalDS_0")
		w.Must(err)
		resources, err := find.ResourcePool(t.Context(), "/DC0/host/DC0_C0/Resources")
		w.Must(err)
		folder, datastore, pool, template, member := inventory.FolderRef(clone.Folder()), store.Reference(), resources.Reference(), inventory.VMRef(plan.ArgsOf[plan.CloneArgs](clone.Args).Template), inventory.VMRef(vm.MoRef)
		for _, c := range []struct {
			call    string
			a       plan.Action
			without string
			id      string // the one that vCenter names
			on      *vim.ManagedObjectReference
			says    string
		}{
			{"CloneVM_Task", clone, "VirtualMachine.Inventory.CreateFromExisting", "System.Modify", &folder, "VirtualMachine.Inventory.CreateFromExisting on /DC0/vm/vm-operator/shop/web"},
			{"CloneVM_Task", clone, "Datastore.AllocateSpace", "", &datastore, "Datastore.AllocateSpace on /DC0/datastore/LocalDS_0"},
			{"CloneVM_Task", clone, "Resource.AssignVMToPool", "System.Read", &pool, "Resource.AssignVMToPool on /DC0/host/DC0_C0/Resources"},
			{"CloneVM_Task", clone, "VirtualMachine.Provisioning.DeployTemplate", "VirtualMachine.Provisioning.DeployTemplate", &template, "VirtualMachine.Provisioning.DeployTemplate on /DC0/vm/ubuntu"},
			{"PowerOnVM_Task", plan.Action{Op: plan.PowerOn, Key: "web-0", MoRef: vm.MoRef}, "VirtualMachine.Interact.PowerOn", "System.Modify", &member, "VirtualMachine.Interact.PowerOn on " + members},
			{"PowerOnVM_Task", plan.Action{Op: plan.PowerOn, Key: "web-0", MoRef: vm.MoRef}, "", "System.Modify", nil, "VirtualMachine.Interact.PowerOn"},
		} {
			w.restrictTo(c.without)
			w.FailCall("PowerOnMultiVM_Task", &vim.NoPermission{}, 1) // which is then done alone
			w.FailCall(c.call, &vim.NoPermission{Object: c.on, PrivilegeId: c.id}, 1)
			if f := p.fault(c.a); f.Reason != vcfault.ReasonMissingPrivilege || f.Message != "vCenter's user lacks the privilege "+c.says+": grant it." {
				t.Errorf("%s without %s: got the fault %+v; want %s, for %s", c.a.Op, c.without, f, vcfault.ReasonMissingPrivilege, c.says)
			}
		}
	})
}

// A task's fault does not name the privilege either.
func TestAPrivilegeThatATaskLacksIsNamedFromTheCallThatBeganIt(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		p.made(0, v1alpha1.VmGroupSpec{})
		vm := p.state().VMs[0]
		member := inventory.VMRef(vm.MoRef)
		w.FailTask(vcsim.PowerOn, nil, &vim.NoPermission{Object: &member, PrivilegeId: "System.Modify"}, 1)
		f := p.fault(plan.Action{Op: plan.PowerOn, Key: "web-0", MoRef: vm.MoRef})
		if want := "vCenter's user lacks the privilege VirtualMachine.Interact.PowerOn on the VMs in /DC0/vm/vm-operator/shop/web: grant it."; f.Message != want {
			t.Errorf("got the fault %+v; want the message %q", f, want)
		}
	})
}
