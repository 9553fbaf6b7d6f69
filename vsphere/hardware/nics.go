// This file has network adapters: those of a source, and those that a clone gets instead.

package hardware

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"
)

// NICsIn returns the network adapters among devices in the order of their keys, which is the order in which they were added, and in which vCenter
// numbers them ("Network adapter 1").
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

// MACsOf returns the MAC addresses of the network adapters among devices, in the order of NICsIn. An address that vCenter has not assigned yet is
// empty.
func MACsOf(devices []types.BaseVirtualDevice) (all []string) {
	for _, device := range NICsIn(devices) {
		all = append(all, device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress)
	}
	return all
}

// ReplaceNICs returns the changes that replace the adapters of a clone's source by one adapter for each backing, in the order of backings. The
// first keep adapters of the source are kept, with new backings.
func ReplaceNICs(has []types.BaseVirtualDevice, backings []types.BaseVirtualDeviceBackingInfo, keep int) (changes []types.BaseVirtualDeviceConfigSpec) {
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

// keptNIC returns an adapter of the source with another network and a new MAC address.
func keptNIC(card types.BaseVirtualDevice, backing types.BaseVirtualDeviceBackingInfo) types.BaseVirtualDevice {
	own := reflect.New(reflect.TypeOf(card).Elem())
	own.Elem().Set(reflect.ValueOf(card).Elem())
	device := own.Interface().(types.BaseVirtualDevice)
	c := device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	c.Backing, c.Connectable, c.AddressType, c.MacAddress = backing, connectedNIC(), string(types.VirtualEthernetCardMacTypeGenerated), ""
	return device
}

// newNICKey is the temporary key of the first new adapter; the keys count down. vCenter replaces them.
const newNICKey = -4000

// addedNIC returns a new adapter that is connected at power-on.
func addedNIC(i int, backing types.BaseVirtualDeviceBackingInfo) types.BaseVirtualDevice {
	return &types.VirtualVmxnet3{VirtualVmxnet: types.VirtualVmxnet{VirtualEthernetCard: types.VirtualEthernetCard{
		VirtualDevice: types.VirtualDevice{Key: newNICKey - int32(i), Backing: backing, Connectable: connectedNIC()},
		AddressType:   string(types.VirtualEthernetCardMacTypeGenerated), WakeOnLanEnabled: types.NewBool(true),
	}}}
}

func connectedNIC() *types.VirtualDeviceConnectInfo {
	return &types.VirtualDeviceConnectInfo{StartConnected: true, AllowGuestControl: true, Connected: true}
}

// RefusedForBootOrder reports whether vCenter refused to remove an adapter because the boot order names it: the invalid property is
// "configSpec.bootOptions.bootOrder" (fog/fog-vsphere#98).
func RefusedForBootOrder(err error) bool {
	var wrong types.BaseInvalidArgument
	_, is := fault.As(err, &wrong)
	return is && strings.HasSuffix(wrong.GetInvalidArgument().InvalidProperty, "bootOrder")
}

// AddedNetworks returns the distributed port groups that a clone's adapters connect to. Other networks are identified by name, which is the same
// on each host.
func AddedNetworks(changes []types.BaseVirtualDeviceConfigSpec) (refs []types.ManagedObjectReference) {
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
