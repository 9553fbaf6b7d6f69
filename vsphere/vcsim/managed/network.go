package managed

import (
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// checkDevices makes of device changes what the simulator needs, which panics on some and lets others in. It
// returns copies of those it changes. The caller holds the world.
//
//   - What is to be removed or edited must be there, by its key; else the fault is InvalidDeviceSpec.
//   - A disk that is part of a snapshot is removed only with its files: "Cannot remove virtual disk from the virtual machine because it
//     or one of its parent disks is part of a snapshot of the virtual machine" (pyvmomi-community-samples#352), an InvalidDeviceSpec
//     (vsphere-storage-for-docker#399). One that was attached after the snapshot is not part of it (OpenNebula#2275).
//   - The network of an adapter must be in the VM's datacenter; else it is InvalidDeviceBacking.
//   - An adapter without an address gets one that nobody else has. [doc] VirtualEthernetCard.addressType: "Assigned:
//     MAC address assigned by VirtualCenter".
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
			spec.Device = vm.Config.Hardware.Device[old] // the simulator believes what it is told of it
			checked[i] = &spec
			continue
		case types.VirtualDeviceConfigSpecOperationEdit:
			if old < 0 || gone[key] {
				return nil, invalidDevice(i, "virtualDeviceSpec.device.key")
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

// keepMAC leaves an adapter's address as it is, if an edit does not set it.
func keepMAC(card, had *types.VirtualEthernetCard) {
	if card.MacAddress == "" {
		card.MacAddress, card.AddressType = had.MacAddress, had.AddressType
	}
}

func invalidDevice(index int, property string) *types.InvalidDeviceSpec {
	return &types.InvalidDeviceSpec{InvalidVmConfig: types.InvalidVmConfig{Property: property}, DeviceIndex: int32(index)}
}

// setMAC gives an adapter an address, if it has none. The simulator's come from three digits of the VM's uuid, so
// that some VMs would share theirs.
func (v *Objects) setMAC(card *types.VirtualEthernetCard) {
	if card.MacAddress != "" {
		return
	}
	v.mu.Lock()
	v.lastMAC++
	n := v.lastMAC
	v.mu.Unlock()
	// 00:50:56 and a fourth byte from 80 to bf are what vCenter assigns.
	card.MacAddress = fmt.Sprintf("00:50:56:%02x:%02x:%02x", 0x80+n>>16&0x3f, n>>8&0xff, n&0xff)
	card.AddressType = string(types.VirtualEthernetCardMacTypeAssigned)
}

// reachable says whether there is the network of a backing in the VM's datacenter.
func (v *Objects) reachable(vm *simulator.VirtualMachine, backing types.BaseVirtualDeviceBackingInfo) bool {
	dc := v.world.DatacenterOf(vm.Self)
	if dc == nil {
		return false
	}
	_, found := v.networkOf(dc, backing)
	return found
}

// networkOf finds the network of a backing: its name, and that of the opaque network of which it is a part.
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

// opaqueTwin names the opaque network that a port group carries, or else the port group: since vSphere 7 the one is
// asked for and the other is what an adapter then has.
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
