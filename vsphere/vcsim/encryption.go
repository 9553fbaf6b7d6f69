package vcsim

import (
	"slices"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// encrypted reports whether a VM's files are encrypted.
func encrypted(vm *simulator.VirtualMachine) bool {
	return vm.Config.KeyId != nil || tpmOf(vm.Config.Hardware.Device) != nil
}

// encrypts reports whether one of the policies that a change assigns to a VM or disk encrypts.
func (s *storagePolicies) encrypts(profile []types.BaseVirtualMachineProfileSpec) bool {
	return slices.ContainsFunc(profile, func(p types.BaseVirtualMachineProfileSpec) bool {
		defined, is := p.(*types.VirtualMachineDefinedProfileSpec)
		return is && defined.ProfileId == s.encrypting
	})
}

// encryptsAsItClones rejects a clone whose spec has a policy that encrypts (kubernetes-sigs/cluster-api-provider-vsphere#1146: "Changing or
// applying VM Storage Policies with Data Service capabilities during clone operations is disallowed"). The fault's property:
// terraform-provider-vsphere#2241.
func (v *inventory) encryptsAsItClones(spec *types.VirtualMachineCloneSpec) types.BaseMethodFault {
	refused := v.profiles.encrypts(spec.Location.Profile)
	for _, disk := range spec.Location.Disk {
		refused = refused || v.profiles.encrypts(disk.Profile)
	}
	if spec.Config != nil {
		refused = refused || v.profiles.encrypts(spec.Config.VmProfile)
		for _, change := range spec.Config.DeviceChange {
			refused = refused || v.profiles.encrypts(change.GetVirtualDeviceConfigSpec().Profile)
		}
	}
	if refused {
		return &types.InvalidArgument{InvalidProperty: "spec.disk.backing.crypto"}
	}
	return nil
}

// takesEncryption returns the fault if a change would encrypt a VM that cannot be encrypted, or nil.
//
// [doc] vSphere Security, Virtual Machine Encryption Interoperability: "For most virtual machine encryption operations, the virtual machine must
// be powered off", "You cannot encrypt a virtual machine that has existing snapshots"; Virtual Disk Encryption: "you cannot encrypt a disk if
// the virtual machine is not encrypted". A linked clone's disks are deltas, too. The faults: as of govmomi's simulator, or no source.
func (v *inventory) takesEncryption(vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) types.BaseMethodFault {
	home, edits, adds := v.profiles.encrypts(spec.VmProfile), false, false
	for _, change := range spec.DeviceChange {
		c := change.GetVirtualDeviceConfigSpec()
		if v.profiles.encrypts(c.Profile) {
			edits, adds = edits || c.Operation == types.VirtualDeviceConfigSpecOperationEdit, adds || c.Operation == types.VirtualDeviceConfigSpecOperationAdd
		}
	}
	delta := slices.ContainsFunc(disksIn(vm.Config.Hardware.Device), func(disk *types.VirtualDisk) bool {
		b, is := disk.Backing.(*flat)
		return is && b.Parent != nil
	})
	switch {
	case !home && !edits && !adds:
		return nil
	case (edits || adds) && !home && !encrypted(vm), len(v.objects.CryptoManager().KmipServers) == 0:
		return new(types.GenericVmConfigFault)
	case home && !encrypted(vm) || edits:
		if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
			return &types.InvalidPowerState{RequestedState: types.VirtualMachinePowerStatePoweredOff, ExistingState: vm.Runtime.PowerState}
		}
		if delta || vm.Snapshot != nil {
			return new(types.InvalidState)
		}
	}
	return nil
}

// encryptDisk gives a disk that a change adds or edits a key if the change's policy encrypts. The simulator does this only for new disks.
func (v *inventory) encryptDisk(change *types.VirtualDeviceConfigSpec) {
	disk, is := change.Device.(*types.VirtualDisk)
	if !is || !v.profiles.encrypts(change.Profile) {
		return
	}
	if change.Operation == types.VirtualDeviceConfigSpecOperationAdd {
		change.Backing = &types.VirtualDeviceConfigSpecBackingSpec{Crypto: &types.CryptoSpecEncrypt{CryptoKeyId: *newKey()}}
		return
	}
	if b, is := disk.Backing.(*flat); is && b.KeyId == nil {
		withKey, copied := *b, *disk
		withKey.KeyId = newKey()
		copied.Backing, change.Device = &withKey, &copied
	}
}

// assign records the policies that a change gave a VM and its disks, and encrypts the VM's files.
func (v *inventory) assign(ctx *simulator.Context, vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) {
	now := v.policies[vm.Self]
	if ids, fault := v.profileIDs(spec.VmProfile, ""); fault == nil && len(ids) > 0 {
		now.home = ids
	}
	if v.profiles.encrypts(spec.VmProfile) && vm.Config.KeyId == nil {
		v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "config.keyId", Val: newKey()}})
	}
	for _, change := range spec.DeviceChange {
		c := change.GetVirtualDeviceConfigSpec()
		if ids, fault := v.profileIDs(c.Profile, ""); fault == nil && len(ids) > 0 && c.Operation != types.VirtualDeviceConfigSpecOperationRemove {
			if now.disks == nil {
				now.disks = make(map[int32][]string)
			}
			now.disks[c.Device.GetVirtualDevice().Key] = ids
		}
	}
	v.policies[vm.Self] = now
}

func newKey() *types.CryptoKeyId {
	return &types.CryptoKeyId{KeyId: uuid.NewString(), ProviderId: &types.KeyProviderId{Id: "native"}}
}
