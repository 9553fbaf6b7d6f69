package vcsim

import (
	"cmp"
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// inheritHardware gives a clone those properties of its source that the simulator does not copy.
func inheritHardware(vm *simulator.VirtualMachine, source *types.VirtualMachineConfigInfo) {
	vm.Config.VAppConfig = source.VAppConfig
	vm.Config.Hardware.AutoCoresPerSocket = source.Hardware.AutoCoresPerSocket
	vm.Config.BootOptions, vm.Config.KeyId = source.BootOptions, source.KeyId
	vm.Config.CpuAllocation, vm.Config.MemoryAllocation = source.CpuAllocation, source.MemoryAllocation
	vm.Config.MemoryReservationLockedToMax = source.MemoryReservationLockedToMax
}

// keepUnset adds the present values of properties that a change leaves unset, because the simulator would drop them.
//
// [doc] ConfigSpec: "Any property that is left unset is not changed"; .memoryReservationLockedToMax: "memory resource reservation for this
// virtual machine will always be equal to the virtual machine's memory size".
func keepUnset(c *types.VirtualMachineConfigInfo, spec *types.VirtualMachineConfigSpec) {
	spec.BootOptions = bootOptions(c.BootOptions, spec.BootOptions)
	spec.CpuAllocation, spec.MemoryAllocation = allocation(c.CpuAllocation, spec.CpuAllocation), allocation(c.MemoryAllocation, spec.MemoryAllocation)
	locked := c.MemoryReservationLockedToMax
	if spec.MemoryReservationLockedToMax != nil {
		locked = spec.MemoryReservationLockedToMax
	}
	if isTrue(locked) {
		all := cmp.Or(spec.MemoryMB, int64(c.Hardware.MemoryMB))
		spec.MemoryAllocation = allocation(cmp.Or(spec.MemoryAllocation, c.MemoryAllocation), &types.ResourceAllocationInfo{Reservation: &all})
	}
}

// bootOptions returns a copy of have with the fields that change sets; nil if change is nil.
func bootOptions(have, change *types.VirtualMachineBootOptions) *types.VirtualMachineBootOptions {
	if change == nil || have == nil {
		return change
	}
	all := *have
	all.BootDelay = cmp.Or(change.BootDelay, all.BootDelay)
	if change.EfiSecureBootEnabled != nil {
		all.EfiSecureBootEnabled = change.EfiSecureBootEnabled
	}
	if change.BootOrder != nil {
		all.BootOrder = change.BootOrder
	}
	return &all
}

// BootWithEFI makes a VM or template, and its clones, boot with EFI.
func (v *inventory) BootWithEFI(where string) error {
	return v.changeVM("set the firmware of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.Amend(ctx, vm, types.PropertyChange{Name: "config.firmware", Val: string(types.GuestOsDescriptorFirmwareTypeEfi)})
		return nil
	})
}

// AddKeyProvider gives vCenter a default key provider.
func (v *inventory) AddKeyProvider() {
	v.world.Lock()
	defer v.world.Unlock()
	v.objects.CryptoManager().KmipServers = []types.KmipClusterInfo{{ClusterId: types.KeyProviderId{Id: "native"}, UseAsDefault: true,
		ManagementType: string(types.KmipClusterInfoKmsManagementTypeNativeProvider)}}
}

// RemoveKeyProviders removes all key providers, so that vCenter can't encrypt any further VM or disk.
func (v *inventory) RemoveKeyProviders() {
	v.world.Lock()
	defer v.world.Unlock()
	v.objects.CryptoManager().KmipServers = nil
}

// takesTPM returns the fault if a VM cannot get a virtual TPM, or nil.
//
// [doc] vSphere Security, Securing Virtual Machines with vTPM: "EFI firmware", "Hardware version 14 and later"; "it requires that you configure
// a key provider". Programming Guide: "the ConfigInfo.firmware type must be set to efi". The faults: no source.
func (v *inventory) takesTPM(vm *simulator.VirtualMachine) types.BaseMethodFault {
	switch {
	case vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn:
		return &types.InvalidPowerState{RequestedState: types.VirtualMachinePowerStatePoweredOff, ExistingState: vm.Runtime.PowerState}
	case versionOf(vm) < 14:
		return &types.DeviceUnsupportedForVmVersion{CurrentVersion: vm.Config.Version, ExpectedVersion: "vmx-14"}
	case vm.Config.Firmware != string(types.GuestOsDescriptorFirmwareTypeEfi), tpmOf(vm.Config.Hardware.Device) != nil:
		return new(types.DeviceNotSupported)
	case len(v.objects.CryptoManager().KmipServers) == 0:
		return new(types.GenericVmConfigFault)
	}
	return nil
}

// takesPCI returns the fault if a VM cannot get a PCI device of its host, or nil.
//
// "PCI device attachment on a VM with hardware version < vmx-17 is not supported" (kubernetes-sigs/cluster-api-provider-vsphere#1749); [doc]
// vSphere Networking, DirectPath I/O: "Hot adding and removing of virtual devices" is unavailable. The faults: no source.
func takesPCI(vm *simulator.VirtualMachine) types.BaseMethodFault {
	switch {
	case vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn:
		return &types.InvalidPowerState{RequestedState: types.VirtualMachinePowerStatePoweredOff, ExistingState: vm.Runtime.PowerState}
	case versionOf(vm) < 17:
		return &types.DeviceUnsupportedForVmVersion{CurrentVersion: vm.Config.Version, ExpectedVersion: "vmx-17"}
	}
	return nil
}

// versionOf returns a VM's hardware version.
func versionOf(vm *simulator.VirtualMachine) (version int) {
	_, _ = fmt.Sscanf(vm.Config.Version, "vmx-%d", &version)
	return version
}

// allocation returns a copy of have with the fields that change sets; nil if change is nil.
func allocation(have, change *types.ResourceAllocationInfo) *types.ResourceAllocationInfo {
	if change == nil || have == nil {
		return change
	}
	all := *have
	if change.Reservation != nil {
		all.Reservation = change.Reservation
	}
	if change.Limit != nil {
		all.Limit = change.Limit
	}
	if change.Shares != nil {
		all.Shares = change.Shares
	}
	return &all
}
