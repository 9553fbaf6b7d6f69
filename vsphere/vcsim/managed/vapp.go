package managed

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// SetVAppProperties gives a VM or template vApp properties as an OVA brings them, with a transport by which guests read them. Its
// clones inherit them.
func (v *Objects) SetVAppProperties(where string) error {
	return v.byHand("give vApp properties to", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.amend(ctx, vm, types.PropertyChange{Name: "config.vAppConfig", Val: &types.VmConfigInfo{
			Property:                []types.VAppPropertyInfo{{Key: 0, Id: "user-data", Type: "string", UserConfigurable: types.NewBool(true)}},
			OvfEnvironmentTransport: []string{"com.vmware.guestInfo"},
		}})
		return nil
	})
}

// readsOVF reports whether cloud-init in a VM's guest finds an OVF environment. It then looks at no guestinfo, as long as it has not
// been told to, or is of a version with canonical/cloud-init#5912.
func readsOVF(vm *simulator.VirtualMachine) bool {
	c := vm.Config.VAppConfig
	return c != nil && len(c.GetVmConfigInfo().OvfEnvironmentTransport) > 0
}
