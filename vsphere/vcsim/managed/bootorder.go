package managed

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// BootFromNetwork puts the network adapters of a VM or template first in its boot order. Clones inherit the boot order.
func (v *Objects) BootFromNetwork(where string) error {
	return v.changeVM("set the boot order of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		options := new(types.VirtualMachineBootOptions)
		for _, d := range vm.Config.Hardware.Device {
			if _, is := d.(types.BaseVirtualEthernetCard); is {
				options.BootOrder = append(options.BootOrder, &types.VirtualMachineBootOptionsBootableEthernetDevice{DeviceKey: d.GetVirtualDevice().Key})
			}
		}
		v.Amend(ctx, vm, types.PropertyChange{Name: "config.bootOptions", Val: options})
		return nil
	})
}

// bootsFromRemoved rejects a clone spec that removes an adapter in the boot order of its source (fog/fog-vsphere#98: "A specified parameter
// was not correct (configSpec.bootOptions.bootOrder)").
func bootsFromRemoved(vm *simulator.VirtualMachine, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	if vm.Config.BootOptions == nil {
		return nil
	}
	for _, c := range changes {
		x := c.GetVirtualDeviceConfigSpec()
		if x.Device != nil && x.Operation == types.VirtualDeviceConfigSpecOperationRemove &&
			slices.ContainsFunc(vm.Config.BootOptions.BootOrder, func(d types.BaseVirtualMachineBootOptionsBootableDevice) bool {
				card, is := d.(*types.VirtualMachineBootOptionsBootableEthernetDevice)
				return is && card.DeviceKey == x.Device.GetVirtualDevice().Key
			}) {
			return &types.InvalidArgument{InvalidProperty: "configSpec.bootOptions.bootOrder"}
		}
	}
	return nil
}
