package managed

import (
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// checkDevices rejects device changes that the simulator panics on or wrongly allows, and completes others in copies. The caller holds the
// world lock.
//
//   - A device to remove or edit must exist; otherwise the fault is InvalidDeviceSpec.
//   - A disk that is edited keeps its file; a delta cannot grow.
//   - A disk that is part of a snapshot can be removed only with its files: "Cannot remove virtual disk from the virtual machine because it
//     or one of its parent disks is part of a snapshot of the virtual machine" (pyvmomi-community-samples#352), an InvalidDeviceSpec
//     (vsphere-storage-for-docker#399). A disk attached after the snapshot is not part of it (OpenNebula#2275).
//   - The network of an adapter must be in the VM's datacenter; otherwise the fault is InvalidDeviceBacking.
//   - An adapter without an address gets a unique one. [doc] VirtualEthernetCard.addressType: "Assigned: MAC address assigned by
//     VirtualCenter".
func (v *Objects) checkDevices(vm *simulator.VirtualMachine, changes []types.BaseVirtualDeviceConfigSpec) ([]types.BaseVirtualDeviceConfigSpec, types.BaseMethodFault) {
	checked := slices.Clone(changes)
	gone := make(map[int32]bool)
	for i, change := range changes {
		spec := *change.GetVirtualDeviceConfigSpec()
		if spec.Device == nil {
			return nil, invalidDevice(i, "virtualDeviceSpec.device")
		}
		key := spec.Device.GetVirtualDevice().Key
		old := slices.IndexFunc(vm.Config.Hardware.Device, func(d types.BaseVirtualDevice) bool { return d.GetVirtualDevice().Key == key })
		switch spec.Operation {
		case types.VirtualDeviceConfigSpecOperationRemove:
			if old < 0 || gone[key] {
				return nil, invalidDevice(i, "virtualDeviceSpec.device.key")
			}
			if disk, is := vm.Config.Hardware.Device[old].(*types.VirtualDisk); is && spec.FileOperation == "" && v.inSnapshot(vm, disk) {
				return nil, invalidDevice(i, "virtualDeviceSpec.device")
			}
			gone[key] = true
			spec.Device = vm.Config.Hardware.Device[old] // the simulator trusts the request's
			checked[i] = &spec
			continue
		case types.VirtualDeviceConfigSpecOperationEdit:
			if old < 0 || gone[key] {
				return nil, invalidDevice(i, "virtualDeviceSpec.device.key")
			}
			if disk, is := vm.Config.Hardware.Device[old].(*types.VirtualDisk); is {
				if spec.Device = grown(disk, spec.Device); spec.Device == nil {
					return nil, new(types.InvalidDeviceOperation)
				}
				checked[i] = &spec
			}
		}
		card, ok := spec.Device.(types.BaseVirtualEthernetCard)
		if !ok {
			continue
		}
		if !v.reachable(vm, card.GetVirtualEthernetCard().Backing) {
			return nil, &types.InvalidDeviceBacking{InvalidDeviceSpec: *invalidDevice(i, "virtualDeviceSpec.device.backing")}
		}
		if had, ok := deviceAt(vm, old).(types.BaseVirtualEthernetCard); ok && spec.Operation == types.VirtualDeviceConfigSpecOperationEdit {
			keepMAC(card.GetVirtualEthernetCard(), had.GetVirtualEthernetCard())
		}
		v.setMAC(card.GetVirtualEthernetCard())
	}
	return checked, nil
}

func deviceAt(vm *simulator.VirtualMachine, i int) types.BaseVirtualDevice {
	if i < 0 {
		return nil
	}
	return vm.Config.Hardware.Device[i]
}

// keepMAC keeps an adapter's address if an edit does not set it.
func keepMAC(card, had *types.VirtualEthernetCard) {
	if card.MacAddress == "" {
		card.MacAddress, card.AddressType = had.MacAddress, had.AddressType
	}
}

func invalidDevice(index int, property string) *types.InvalidDeviceSpec {
	return &types.InvalidDeviceSpec{InvalidVmConfig: types.InvalidVmConfig{Property: property}, DeviceIndex: int32(index)}
}

// setMAC gives an adapter without an address a unique one. The simulator's derive from three digits of the VM's uuid and can collide.
func (v *Objects) setMAC(card *types.VirtualEthernetCard) {
	if card.MacAddress != "" {
		return
	}
	v.mu.Lock()
	v.lastMAC++
	n := v.lastMAC
	v.mu.Unlock()
	// vCenter assigns 00:50:56 and a fourth byte from 80 to bf.
	card.MacAddress = fmt.Sprintf("00:50:56:%02x:%02x:%02x", 0x80+n>>16&0x3f, n>>8&0xff, n&0xff)
	card.AddressType = string(types.VirtualEthernetCardMacTypeAssigned)
}

// reachable reports whether the network of a backing exists in the VM's datacenter.
func (v *Objects) reachable(vm *simulator.VirtualMachine, backing types.BaseVirtualDeviceBackingInfo) bool {
	dc := v.world.DatacenterOf(vm.Self)
	if dc == nil {
		return false
	}
	_, found := v.networkOf(dc, backing)
	return found
}

// networkOf finds the network of a backing and returns its name, or that of the opaque network behind a port group.
func (v *Objects) networkOf(dc *simulator.Datacenter, backing types.BaseVirtualDeviceBackingInfo) (name string, found bool) {
	for _, ref := range dc.Network {
		switch n := v.objects.Get(ref).(type) {
		case *simulator.DistributedVirtualPortgroup:
			b, ok := backing.(*types.VirtualEthernetCardDistributedVirtualPortBackingInfo)
			if ok && b.Port.PortgroupKey == n.Key && b.Port.SwitchUuid == v.switchOf(n) {
				return v.opaqueTwin(dc, n), true
			}
		case *mo.OpaqueNetwork:
			b, ok := backing.(*types.VirtualEthernetCardOpaqueNetworkBackingInfo)
			if s, is := n.Summary.(*types.OpaqueNetworkSummary); ok && is &&
				s.OpaqueNetworkId == b.OpaqueNetworkId && s.OpaqueNetworkType == b.OpaqueNetworkType {
				return n.Name, true
			}
		case *mo.Network:
			if b, ok := backing.(*types.VirtualEthernetCardNetworkBackingInfo); ok && b.DeviceName == n.Name {
				return n.Name, true
			}
		}
	}
	return "", false
}

func (v *Objects) switchOf(pg *simulator.DistributedVirtualPortgroup) string {
	if ref := pg.Config.DistributedVirtualSwitch; ref != nil {
		if s, ok := v.objects.Get(*ref).(*simulator.DistributedVirtualSwitch); ok {
			return s.Uuid
		}
	}
	return ""
}

// opaqueTwin names the opaque network that a port group carries, or else the port group: since vSphere 7, a request for the opaque network
// yields an adapter on the port group.
func (v *Objects) opaqueTwin(dc *simulator.Datacenter, pg *simulator.DistributedVirtualPortgroup) string {
	for _, ref := range dc.Network {
		if n, ok := v.objects.Get(ref).(*mo.OpaqueNetwork); ok && pg.Config.LogicalSwitchUuid != "" {
			if s, ok := n.Summary.(*types.OpaqueNetworkSummary); ok && s.OpaqueNetworkId == pg.Config.LogicalSwitchUuid {
				return n.Name
			}
		}
	}
	return pg.Name
}
