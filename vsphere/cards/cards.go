// Package cards has the network adapters of a VM, and those that a clone is to get. It calls nobody and has no lock.
package cards

import (
	"cmp"
	"slices"

	"github.com/vmware/govmomi/vim25/types"
)

// In are the network adapters among devices, in the order of their keys: that in which they were added, and in which vCenter numbers
// them ("Network adapter 1").
func In(devices []types.BaseVirtualDevice) (all []types.BaseVirtualDevice) {
	for _, device := range devices {
		if _, is := device.(types.BaseVirtualEthernetCard); is {
			all = append(all, device)
		}
	}
	slices.SortStableFunc(all, func(a, b types.BaseVirtualDevice) int {
		return cmp.Compare(a.GetVirtualDevice().Key, b.GetVirtualDevice().Key)
	})
	return all
}

// MACs are the MAC addresses of the network adapters among devices, in the order of In. One that vCenter has yet to give is empty.
func MACs(devices []types.BaseVirtualDevice) (all []string) {
	for _, device := range In(devices) {
		all = append(all, device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress)
	}
	return all
}

// Changes give a clone one adapter for each backing, in their order, instead of those that its source has.
func Changes(has []types.BaseVirtualDevice, backings []types.BaseVirtualDeviceBackingInfo) (changes []types.BaseVirtualDeviceConfigSpec) {
	for _, card := range has {
		changes = append(changes, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: card})
	}
	for i, backing := range backings {
		changes = append(changes, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: added(i, backing)})
	}
	return changes
}

// newKey is the first of the keys that stand for new adapters until vCenter gives them their own; they count down.
const newKey = -4000

// added is an adapter that is connected from power-on on.
func added(i int, backing types.BaseVirtualDeviceBackingInfo) types.BaseVirtualDevice {
	return &types.VirtualVmxnet3{VirtualVmxnet: types.VirtualVmxnet{VirtualEthernetCard: types.VirtualEthernetCard{
		VirtualDevice: types.VirtualDevice{Key: newKey - int32(i), Backing: backing, Connectable: connected()},
		AddressType:   string(types.VirtualEthernetCardMacTypeGenerated), WakeOnLanEnabled: types.NewBool(true),
	}}}
}

func connected() *types.VirtualDeviceConnectInfo {
	return &types.VirtualDeviceConnectInfo{StartConnected: true, AllowGuestControl: true, Connected: true}
}
