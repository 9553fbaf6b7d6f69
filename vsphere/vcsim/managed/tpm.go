package managed

import (
	"slices"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// AddTPM gives the VM or template with a path or name a virtual TPM, with secrets of its own.
func (v *Objects) AddTPM(where string) error {
	return v.changeVM("add a TPM to", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.Amend(ctx, vm, types.PropertyChange{Name: "config.hardware.device", Val: append(slices.Clone(vm.Config.Hardware.Device), newTPM())})
		return nil
	})
}

func newTPM() *types.VirtualTPM {
	return &types.VirtualTPM{VirtualDevice: types.VirtualDevice{Key: 11000}, EndorsementKeyCertificate: [][]byte{[]byte(uuid.NewString())}}
}

// tpmOf returns a VM's virtual TPM; nil if it has none.
func tpmOf(devices []types.BaseVirtualDevice) *types.VirtualTPM {
	for _, d := range devices {
		if tpm, is := d.(*types.VirtualTPM); is {
			return tpm
		}
	}
	return nil
}

// cloneTPM gives a clone of a VM with a virtual TPM a copy of it, with its secrets, or a new one.
//
// [doc] VirtualMachineCloneSpec.tpmProvisionPolicy (8.0.0.1): "If unset - a globally defined policy is used, which by default is set to
// 'copy'."
func (v *Objects) cloneTPM(ctx *simulator.Context, vm *simulator.VirtualMachine, of *types.VirtualTPM, policy string) {
	if of == nil {
		return
	}
	copied := *of
	if policy == string(types.VirtualMachineCloneSpecTpmProvisionPolicyReplace) {
		copied = *newTPM()
	}
	devices := slices.DeleteFunc(slices.Clone(vm.Config.Hardware.Device), func(d types.BaseVirtualDevice) bool { _, is := d.(*types.VirtualTPM); return is })
	v.Amend(ctx, vm, types.PropertyChange{Name: "config.hardware.device", Val: append(devices, &copied)})
}
