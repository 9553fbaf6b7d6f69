// Package cards has the network adapters of a VM, and those that a clone is to get. It makes no calls and has no lock.
package cards

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/vmware/govmomi/fault"
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

// Changes give a clone one adapter for each backing, in their order, instead of those that its source has. The first of these stay, as
// many as keep says, with other backings.
func Changes(has []types.BaseVirtualDevice, backings []types.BaseVirtualDeviceBackingInfo, keep int) (changes []types.BaseVirtualDeviceConfigSpec) {
	change := func(op types.VirtualDeviceConfigSpecOperation, device types.BaseVirtualDevice) {
		changes = append(changes, &types.VirtualDeviceConfigSpec{Operation: op, Device: device})
	}
	for i, card := range has {
		if i < keep {
			change(types.VirtualDeviceConfigSpecOperationEdit, kept(card, backings[i]))
		} else {
			change(types.VirtualDeviceConfigSpecOperationRemove, card)
		}
	}
	for i := keep; i < len(backings); i++ {
		change(types.VirtualDeviceConfigSpecOperationAdd, added(i, backings[i]))
	}
	return changes
}

// kept is an adapter of the source as it is, but for its network and its MAC address.
func kept(card types.BaseVirtualDevice, backing types.BaseVirtualDeviceBackingInfo) types.BaseVirtualDevice {
	own := reflect.New(reflect.TypeOf(card).Elem())
	own.Elem().Set(reflect.ValueOf(card).Elem())
	device := own.Interface().(types.BaseVirtualDevice)
	c := device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	c.Backing, c.Connectable, c.AddressType, c.MacAddress = backing, connected(), string(types.VirtualEthernetCardMacTypeGenerated), ""
	return device
}

// RefusedForBootOrder reports whether an error refuses changes of adapters because of the boot order, which names one that is removed:
// "configSpec.bootOptions.bootOrder" (fog/fog-vsphere#98).
func RefusedForBootOrder(err error) bool {
	var wrong types.BaseInvalidArgument
	_, is := fault.As(err, &wrong)
	return is && strings.HasSuffix(wrong.GetInvalidArgument().InvalidProperty, "bootOrder")
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
