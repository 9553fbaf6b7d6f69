package managed

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// firstClass are the first-class disks. The caller holds the world lock for writing.
type firstClass interface {
	// CheckChange checks the changes of a VM's devices, and completes those that attach a first-class disk.
	CheckChange(vm *simulator.VirtualMachine, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault
	// CheckPowerOn returns the fault of a power-on; PoweredOn records that one succeeded.
	CheckPowerOn(vm *simulator.VirtualMachine) types.BaseMethodFault
	PoweredOn(vm *simulator.VirtualMachine)
	// Destroying returns the fault of a destruction, and what is to be done when it has succeeded.
	Destroying(vm *simulator.VirtualMachine) (destroyed func(), fault types.BaseMethodFault)
	// Relocated updates where the disks of a VM are.
	Relocated(vm *simulator.VirtualMachine)
}

// Begin starts a task on an object. The caller holds the world lock, at least for reading, and the object's lock.
func (v *Objects) Begin(g *world.Guard, kind Kind, on mo.Entity, name string, do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)) types.ManagedObjectReference {
	return v.begin(g, work{kind: kind, entity: on, name: name, do: do})
}

// Everywhere lists all VMs, those outside the inventory included. The caller holds the world lock.
func (v *Objects) Everywhere() (all []*simulator.VirtualMachine) {
	for _, e := range v.objects.All("VirtualMachine") {
		all = append(all, e.(*simulator.VirtualMachine))
	}
	for _, d := range v.removedVMs {
		all = append(all, d.vm)
	}
	return all
}

// destroy destroys a VM. The caller holds the world lock for writing.
func (v *Objects) destroy(ctx *simulator.Context, vm *simulator.VirtualMachine) (types.AnyType, types.BaseMethodFault) {
	destroyed, fault := v.disks.Destroying(vm)
	if fault != nil {
		return nil, fault
	}
	res, fault := v.inner(ctx, vm.Self, func() soap.HasFault { return vm.DestroyTask(ctx, &types.Destroy_Task{This: vm.Self}) })
	if fault == nil {
		destroyed()
	}
	return res, fault
}
