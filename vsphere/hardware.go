// This file has the parts of spec.hardware that are more than a field of vCenter's: reservations, limits and shares, and PCI devices.

package vsphere

import (
	"fmt"
	"strings"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// allocate sets the reservations, limits and shares of spec.hardware.
func allocate(config *types.VirtualMachineConfigSpec, h *v1alpha1.Hardware) {
	config.CpuAllocation = allocationOf(h.CPUReservationMHz, h.CPULimitMHz, h.CPUShares)
	config.MemoryAllocation = allocationOf(h.MemoryReservationMiB, h.MemoryLimitMiB, h.MemoryShares)
	if config.MemoryReservationLockedToMax = h.ReserveAllMemory; len(h.PCIDevices) > 0 {
		config.MemoryReservationLockedToMax = types.NewBool(true)
	}
}

// allocationOf returns what is set of an allocation; nil if nothing is.
func allocationOf(reservation, limit int32, shares *intstr.IntOrString) *types.ResourceAllocationInfo {
	number := func(n int32) *int64 {
		if n == 0 {
			return nil
		}
		return types.NewInt64(int64(n))
	}
	all := types.ResourceAllocationInfo{Reservation: number(reservation), Limit: number(limit)}
	if shares != nil {
		all.Shares = &types.SharesInfo{Level: types.SharesLevelCustom, Shares: shares.IntVal}
		if shares.Type == intstr.String {
			all.Shares.Level = types.SharesLevel(strings.ToLower(shares.StrVal))
		}
	}
	if all == (types.ResourceAllocationInfo{}) {
		return nil
	}
	return &all
}

// newPCIKey is the first of the keys that stand for new PCI devices until vCenter gives them their own; they count down.
const newPCIKey = -6000

// pciDevices are changes that add PCI devices, each given as "vendor:device" or as a vGPU profile. DRS powers members on where their devices
// are free.
func pciDevices(names []string) (changes []types.BaseVirtualDeviceConfigSpec, err error) {
	for i, name := range names {
		var backing types.BaseVirtualDeviceBackingInfo = &types.VirtualPCIPassthroughVmiopBackingInfo{Vgpu: name}
		if v1alpha1.PCIDeviceID.MatchString(name) {
			var allowed types.VirtualPCIPassthroughAllowedDevice
			if _, err := fmt.Sscanf(name, "%04x:%04x", &allowed.VendorId, &allowed.DeviceId); err != nil {
				return nil, err
			}
			backing = &types.VirtualPCIPassthroughDynamicBackingInfo{AllowedDevice: []types.VirtualPCIPassthroughAllowedDevice{allowed}}
		}
		changes = append(changes, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationAdd,
			Device:    &types.VirtualPCIPassthrough{VirtualDevice: types.VirtualDevice{Key: newPCIKey - int32(i), Backing: backing}},
		})
	}
	return changes, nil
}
