// This file has network adapters: those of a VM, those that a clone gets instead, and their networks.

package vsphere

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"
)

// NICsIn are the network adapters among devices, in the order of their keys: that in which they were added, and in which vCenter numbers
// them ("Network adapter 1").
func NICsIn(devices []types.BaseVirtualDevice) (all []types.BaseVirtualDevice) {
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

// MACsOf are the MAC addresses of the network adapters among devices, in the order of NICsIn. One that vCenter has yet to give is empty.
func MACsOf(devices []types.BaseVirtualDevice) (all []string) {
	for _, device := range NICsIn(devices) {
		all = append(all, device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress)
	}
	return all
}

// nicChanges give a clone one adapter for each backing, in their order, instead of those that its source has. The first of these stay, as
// many as keep says, with other backings.
func nicChanges(has []types.BaseVirtualDevice, backings []types.BaseVirtualDeviceBackingInfo, keep int) (changes []types.BaseVirtualDeviceConfigSpec) {
	change := func(op types.VirtualDeviceConfigSpecOperation, device types.BaseVirtualDevice) {
		changes = append(changes, &types.VirtualDeviceConfigSpec{Operation: op, Device: device})
	}
	for i, card := range has {
		if i < keep {
			change(types.VirtualDeviceConfigSpecOperationEdit, keptNIC(card, backings[i]))
		} else {
			change(types.VirtualDeviceConfigSpecOperationRemove, card)
		}
	}
	for i := keep; i < len(backings); i++ {
		change(types.VirtualDeviceConfigSpecOperationAdd, addedNIC(i, backings[i]))
	}
	return changes
}

// keptNIC is an adapter of the source as it is, but for its network and its MAC address.
func keptNIC(card types.BaseVirtualDevice, backing types.BaseVirtualDeviceBackingInfo) types.BaseVirtualDevice {
	own := reflect.New(reflect.TypeOf(card).Elem())
	own.Elem().Set(reflect.ValueOf(card).Elem())
	device := own.Interface().(types.BaseVirtualDevice)
	c := device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	c.Backing, c.Connectable, c.AddressType, c.MacAddress = backing, connectedNIC(), string(types.VirtualEthernetCardMacTypeGenerated), ""
	return device
}

// newNICKey is the first of the keys that stand for new adapters until vCenter gives them their own; they count down.
const newNICKey = -4000

// addedNIC is an adapter that is connected from power-on on.
func addedNIC(i int, backing types.BaseVirtualDeviceBackingInfo) types.BaseVirtualDevice {
	return &types.VirtualVmxnet3{VirtualVmxnet: types.VirtualVmxnet{VirtualEthernetCard: types.VirtualEthernetCard{
		VirtualDevice: types.VirtualDevice{Key: newNICKey - int32(i), Backing: backing, Connectable: connectedNIC()},
		AddressType:   string(types.VirtualEthernetCardMacTypeGenerated), WakeOnLanEnabled: types.NewBool(true),
	}}}
}

func connectedNIC() *types.VirtualDeviceConnectInfo {
	return &types.VirtualDeviceConnectInfo{StartConnected: true, AllowGuestControl: true, Connected: true}
}

// refusedForBootOrder reports whether an error refuses changes of adapters because of the boot order, which names one that is removed:
// "configSpec.bootOptions.bootOrder" (fog/fog-vsphere#98).
func refusedForBootOrder(err error) bool {
	var wrong types.BaseInvalidArgument
	_, is := fault.As(err, &wrong)
	return is && strings.HasSuffix(wrong.GetInvalidArgument().InvalidProperty, "bootOrder")
}

// addedNetworks returns the distributed port groups that a clone's adapters connect to. Other networks are
// identified by name, which is the same on each host.
func addedNetworks(changes []types.BaseVirtualDeviceConfigSpec) (refs []types.ManagedObjectReference) {
	for _, change := range changes {
		card, is := change.GetVirtualDeviceConfigSpec().Device.(types.BaseVirtualEthernetCard)
		if !is {
			continue
		}
		if b, is := card.GetVirtualEthernetCard().Backing.(*types.VirtualEthernetCardDistributedVirtualPortBackingInfo); is {
			refs = append(refs, types.ManagedObjectReference{Type: "DistributedVirtualPortgroup", Value: b.Port.PortgroupKey})
		}
	}
	return refs
}
