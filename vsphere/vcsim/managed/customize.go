package managed

import (
	"bytes"
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// CustomizeVMTask has a latency and records the specification for Details.
func (vm *machine) CustomizeVMTask(_ *simulator.Context, req *types.CustomizeVM_Task) soap.HasFault {
	return &methods.CustomizeVM_TaskBody{Res: &types.CustomizeVM_TaskResponse{
		Returnval: vm.work(Customize, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
			return nil, vm.v.customize(ctx, vm.VirtualMachine, req.Spec)
		}),
	}}
}

// customize schedules a customization of the guest for the next power-on. The caller holds the world lock.
//
// [doc] NicSettingMismatch: "The number of network adapter settings in the customization specification does not match
// the number of network adapters present in the virtual machine"; CustomizationPending: one "is already pending on
// this virtual machine and is awaiting power-up to complete".
func (v *Objects) customize(ctx *simulator.Context, vm *simulator.VirtualMachine, spec types.CustomizationSpec) types.BaseMethodFault {
	if spec.Identity == nil {
		return &types.InvalidArgument{InvalidProperty: "spec.identity"}
	}
	for i, nic := range spec.NicSettingMap {
		if nic.Adapter.Ip == nil && nic.Adapter.IpV6Spec == nil {
			return &types.InvalidArgument{InvalidProperty: fmt.Sprintf("spec.nicSettingMap[%d].adapter.ip", i)}
		}
	}
	given, err := copyCustomization(spec)
	if err != nil {
		return &types.SystemError{Reason: "cannot copy the customization specification"}
	}
	_, fault := v.inner(ctx, vm.Self, func() soap.HasFault {
		return vm.CustomizeVMTask(ctx, &types.CustomizeVM_Task{This: vm.Self, Spec: spec})
	})
	if fault == nil {
		v.customized[vm.Self], v.due[vm.Self] = given, true
	}
	return fault
}

// copyCustomization returns a deep copy, made as the simulator does.
func copyCustomization(spec types.CustomizationSpec) (*types.CustomizationSpec, error) {
	var encoded bytes.Buffer
	if err := xml.NewEncoder(&encoded).Encode(spec); err != nil {
		return nil, err
	}
	copied := new(types.CustomizationSpec)
	decoder := xml.NewDecoder(&encoded)
	decoder.TypeFunc = types.TypeFunc()
	return copied, decoder.Decode(copied)
}

// hostname returns the guest's host name after its customization, or "" if the specification sets none.
func hostname(spec *types.CustomizationSpec, vmName string) string {
	var name types.BaseCustomizationName
	switch id := spec.Identity.(type) {
	case *types.CustomizationLinuxPrep:
		name = id.HostName
	case *types.CustomizationSysprep:
		name = id.UserData.ComputerName
	}
	switch n := name.(type) {
	case *types.CustomizationFixedName:
		return n.Name
	case *types.CustomizationVirtualMachineName:
		return vmName
	case *types.CustomizationPrefixName:
		return n.Base + "-1"
	}
	return ""
}
