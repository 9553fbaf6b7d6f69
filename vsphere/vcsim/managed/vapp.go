package managed

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// SetVAppProperties gives a VM or template vApp properties, as an OVA does, with a transport through which guests read them. Clones inherit
// them.
func (v *Objects) SetVAppProperties(where string) error {
	return v.changeVM("give vApp properties to", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.Amend(ctx, vm, types.PropertyChange{Name: "config.vAppConfig", Val: &types.VmConfigInfo{
			Property:                []types.VAppPropertyInfo{{Key: 0, Id: "user-data", Type: "string", UserConfigurable: types.NewBool(true)}},
			OvfEnvironmentTransport: []string{"com.vmware.guestInfo"},
		}})
		return nil
	})
}

// readsOVF reports whether cloud-init in a VM's guest finds an OVF environment. It then ignores guestinfo, unless configured otherwise or
// affected by canonical/cloud-init#5912.
func readsOVF(vm *simulator.VirtualMachine) bool {
	c := vm.Config.VAppConfig
	return c != nil && len(c.GetVmConfigInfo().OvfEnvironmentTransport) > 0
}
