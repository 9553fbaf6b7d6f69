package managed

import (
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/cloudinit"
)

// identityOf reads the customization or, if there is none, cloud-init's metadata. cloud-init prefers an OVF environment, which is empty
// here. The caller holds the world lock and the VM's.
func (v *Objects) identityOf(vm *simulator.VirtualMachine) cloudinit.Identity {
	if v.ignores[vm.Self] {
		return cloudinit.Identity{}
	}
	if spec := v.customized[vm.Self]; spec != nil {
		var addresses []string
		for _, nic := range spec.NicSettingMap {
			fixed, _ := nic.Adapter.Ip.(*types.CustomizationFixedIp)
			if fixed == nil {
				fixed = new(types.CustomizationFixedIp)
			}
			addresses = append(addresses, fixed.IpAddress)
		}
		return cloudinit.Identity{Host: hostname(spec, vm.Name), Addresses: addresses}
	}
	if readsOVF(vm) {
		return cloudinit.Identity{}
	}
	values := make(map[string]string)
	for _, o := range vm.Config.ExtraConfig {
		values[o.GetOptionValue().Key] = fmt.Sprint(o.GetOptionValue().Value)
	}
	return cloudinit.Read(values["guestinfo.metadata"], values["guestinfo.metadata.encoding"], macs(vm))
}

func macs(vm *simulator.VirtualMachine) (all []string) {
	for _, d := range vm.Config.Hardware.Device {
		if card, ok := d.(types.BaseVirtualEthernetCard); ok {
			all = append(all, card.GetVirtualEthernetCard().MacAddress)
		}
	}
	return all
}
