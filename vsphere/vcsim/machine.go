package vcsim

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// machine wraps a VM for one call.
type machine struct {
	*simulator.VirtualMachine
	*call
	v *inventory
}

// work begins a task on the VM.
func (vm *machine) work(kind Kind, do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)) types.ManagedObjectReference {
	return vm.v.begin(vm.call, work{kind: kind, entity: vm.VirtualMachine, name: vm.Name, do: do})
}

// DestroyTask has a latency.
func (vm *machine) DestroyTask(_ *simulator.Context, _ *types.Destroy_Task) soap.HasFault {
	return &methods.Destroy_TaskBody{Res: &types.Destroy_TaskResponse{
		Returnval: vm.work(Destroy, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
			return vm.v.destroy(ctx, vm.VirtualMachine)
		}),
	}}
}

// RenameTask rejects a duplicate name and also renames the configuration: displayName is in the .vmx file, so the changeVersion changes.
//
// [doc] Rename_Task: DuplicateName if another object in the same folder has the target name.
func (vm *machine) RenameTask(_ *simulator.Context, req *types.Rename_Task) soap.HasFault {
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		name := escape(req.NewName)
		if vm.Parent != nil { // nil in a vApp
			if fault := vm.v.free(place{*vm.Parent, name}, &vm.Self); fault != nil {
				return nil, fault
			}
		}
		vm.named(ctx, name)
		return nil, nil
	}
	return &methods.Rename_TaskBody{Res: &types.Rename_TaskResponse{Returnval: vm.work(Rename, do)}}
}

// named renames the VM. The name must be free.
func (vm *machine) named(ctx *simulator.Context, name string) {
	was := vm.Name
	vm.v.Amend(ctx, vm.VirtualMachine,
		types.PropertyChange{Name: "name", Val: name},
		types.PropertyChange{Name: "config.name", Val: name},
		types.PropertyChange{Name: "summary.config.name", Val: name})
	vm.v.post(ctx, &types.VmRenamedEvent{VmEvent: vm.v.vmEvent(vm.VirtualMachine), OldName: was, NewName: name})
}

// ReconfigVMTask also checks names, changeVersion and hot-plug, which the simulator does not.
func (vm *machine) ReconfigVMTask(_ *simulator.Context, req *types.ReconfigVM_Task) soap.HasFault {
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		spec := req.Spec
		// [doc] ConfigSpec.changeVersion: "If set, the config version is checked before applying changes.
		// If not the same ... a ConcurrentAccess fault is thrown".
		if spec.ChangeVersion != "" && spec.ChangeVersion != vm.Config.ChangeVersion {
			return nil, new(types.ConcurrentAccess)
		}
		name := escape(spec.Name)
		if name != "" && vm.Parent != nil {
			if fault := vm.v.free(place{*vm.Parent, name}, &vm.Self); fault != nil {
				return nil, fault
			}
		}
		if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
			if fault := hotPlug(vm.Config, spec); fault != nil {
				return nil, fault
			}
		}
		spec.ChangeVersion, spec.Name = "", ""
		was := vm.Config.InstanceUuid
		fault := vm.v.configure(ctx, vm.VirtualMachine, spec)
		if is := vm.Config.InstanceUuid; fault == nil && is != was {
			vm.v.post(ctx, &types.VmInstanceUuidChangedEvent{VmEvent: vm.v.vmEvent(vm.VirtualMachine), OldInstanceUuid: was, NewInstanceUuid: is})
		}
		if fault == nil && name != "" && name != vm.Name {
			vm.named(ctx, name)
		}
		return nil, fault
	}
	return &methods.ReconfigVM_TaskBody{Res: &types.ReconfigVM_TaskResponse{Returnval: vm.work(Reconfigure, do)}}
}

// UpgradeVMTask has a latency, and changes the configuration.
func (vm *machine) UpgradeVMTask(_ *simulator.Context, req *types.UpgradeVM_Task) soap.HasFault {
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		res, fault := vm.v.inner(ctx, vm.Self, func() soap.HasFault { return vm.VirtualMachine.UpgradeVMTask(ctx, req) })
		if fault == nil {
			vm.v.Amend(ctx, vm.VirtualMachine)
		}
		return res, fault
	}
	return &methods.UpgradeVM_TaskBody{Res: &types.UpgradeVM_TaskResponse{Returnval: vm.work(Upgrade, do)}}
}

// hotPlug returns the fault of a hardware change that a powered-on VM does not allow.
//
// [doc] ReconfigVM_Task: CpuHotPlugNotSupported, MemoryHotPlugNotSupported: the current configuration
// does not support hot-plugging; InvalidPowerState: the VM is on, and the hardware cannot change like
// that; VirtualMachineConfigInfo.cpuHotAddEnabled, cpuHotRemoveEnabled, memoryHotAddEnabled.
func hotPlug(c *types.VirtualMachineConfigInfo, spec types.VirtualMachineConfigSpec) types.BaseMethodFault {
	on := &types.InvalidPowerState{
		RequestedState: types.VirtualMachinePowerStatePoweredOff, ExistingState: types.VirtualMachinePowerStatePoweredOn,
	}
	cpus, memory := spec.NumCPUs, spec.MemoryMB
	switch {
	case cpus > c.Hardware.NumCPU && !isTrue(c.CpuHotAddEnabled),
		cpus != 0 && cpus < c.Hardware.NumCPU && !isTrue(c.CpuHotRemoveEnabled):
		return new(types.CpuHotPlugNotSupported)
	case memory > int64(c.Hardware.MemoryMB) && !canAdd(c, memory):
		return new(types.MemoryHotPlugNotSupported)
	case memory != 0 && memory < int64(c.Hardware.MemoryMB): // there is no hot-remove of memory
		return on
	case differs(spec.CpuHotAddEnabled, c.CpuHotAddEnabled), differs(spec.CpuHotRemoveEnabled, c.CpuHotRemoveEnabled),
		differs(spec.MemoryHotAddEnabled, c.MemoryHotAddEnabled),
		spec.NumCoresPerSocket != nil && (isTrue(c.Hardware.AutoCoresPerSocket) || *spec.NumCoresPerSocket != coresPerSocket(c)):
		return on
	}
	return nil
}

// hotPlugMemory returns the limit and the increment of a powered-on VM's memory in MB; zero without memory hot-add.
//
// [doc] VirtualMachineConfigInfo.hotPlugMemoryLimit, hotPlugMemoryIncrementSize. The limit is ESXi's: 16 times the memory at power-on,
// but at most 3 GiB for a Linux guest that was powered on with up to 3 GiB.
func hotPlugMemory(c *types.VirtualMachineConfigInfo) (limit, increment int64) {
	if !isTrue(c.MemoryHotAddEnabled) {
		return 0, 0
	}
	const linuxBound = 3 << 10
	if c.Hardware.MemoryMB <= linuxBound {
		return linuxBound, 128
	}
	return 16 * int64(c.Hardware.MemoryMB), 128
}

// canAdd reports whether a powered-on VM can grow to this much memory, in MB.
//
// [doc] MemoryHotPlugNotSupported: "Thrown when memory cannot be hot-added ... from the virtual machine"; ReconfigVM_Task has no other
// fault for such a change, so this one also applies beyond the limit.
func canAdd(c *types.VirtualMachineConfigInfo, memory int64) bool {
	if !isTrue(c.MemoryHotAddEnabled) {
		return false
	}
	limit, increment := c.HotPlugMemoryLimit, c.HotPlugMemoryIncrementSize
	return memory <= limit && (memory-int64(c.Hardware.MemoryMB))%increment == 0
}

// coresPerSocket returns a VM's cores per socket, 1 if unset.
func coresPerSocket(c *types.VirtualMachineConfigInfo) int32 {
	if c.Hardware.NumCoresPerSocket == nil {
		return 1
	}
	return *c.Hardware.NumCoresPerSocket
}

// sockets rejects a number of CPUs that does not fill its sockets, in any power state.
//
// [doc] ReconfigVM_Task: VmConfigFault, "if the spec is invalid"; InvalidVmConfig names the property.
// VirtualHardware.numCoresPerSocket: "should be ignored for powered off VM with autoCoresPerSocket equals TRUE".
func sockets(vm *simulator.VirtualMachine, spec types.VirtualMachineConfigSpec) types.BaseMethodFault {
	c := vm.Config
	cpus, cores := cmp.Or(spec.NumCPUs, c.Hardware.NumCPU), coresPerSocket(c)
	if isTrue(c.Hardware.AutoCoresPerSocket) && vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff {
		cores = 0
	}
	if spec.NumCoresPerSocket != nil {
		cores = *spec.NumCoresPerSocket
	}
	if cores > 0 && cpus%cores != 0 {
		return &types.InvalidVmConfig{Property: "configSpec.numCPUs"}
	}
	return nil
}

// setCores switches vCenter's own choice of cores per socket on (0) or off, and returns the value to configure. It takes effect at the next
// power-on.
//
// [doc] ConfigSpec.numCoresPerSocket: "with a non-zero value to manually configure coresPerSocket size", "with zero to remove any
// manual size if present, and use default coresPerSocket behavior", and unset "to continue with existing configuration".
func (v *inventory) setCores(ctx *simulator.Context, vm *simulator.VirtualMachine, cores *int32) *int32 {
	if cores == nil {
		return nil
	}
	v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "config.hardware.autoCoresPerSocket", Val: *cores == 0}})
	if *cores == 0 {
		return nil
	}
	return cores
}

// coresAtPowerOn returns the cores per socket of a VM at power-on. If vCenter chooses, the VM gets a single socket here; a real vCenter's
// choice depends on the hosts.
func coresAtPowerOn(c *types.VirtualMachineConfigInfo) int32 {
	if isTrue(c.Hardware.AutoCoresPerSocket) {
		return c.Hardware.NumCPU
	}
	return coresPerSocket(c)
}

func isTrue(b *bool) bool { return b != nil && *b }

func differs(want, have *bool) bool { return want != nil && *want != isTrue(have) }

// configure applies spec. The caller holds the world lock.
func (v *inventory) configure(ctx *simulator.Context, vm *simulator.VirtualMachine, spec types.VirtualMachineConfigSpec) types.BaseMethodFault {
	if fault := sockets(vm, spec); fault != nil {
		return fault
	}
	// An empty value removes a key; if the key is missing, the simulator would add it.
	spec.ExtraConfig = slices.DeleteFunc(slices.Clone(spec.ExtraConfig), func(o types.BaseOptionValue) bool {
		return o.GetOptionValue().Value == "" && !slices.ContainsFunc(vm.Config.ExtraConfig, func(have types.BaseOptionValue) bool {
			return have.GetOptionValue().Key == o.GetOptionValue().Key
		})
	})
	if fault := v.takesEncryption(vm, &spec); fault != nil {
		return fault
	}
	changes, fault := v.checkDevices(vm, spec.DeviceChange)
	if fault != nil {
		return fault
	}
	if fault = v.disks.CheckChange(vm, changes); fault != nil {
		return fault
	}
	spec.DeviceChange = changes
	if fault := bootsFromMissing(vm, spec.BootOptions); fault != nil {
		return fault
	}
	version := laterVersion(vm)
	keepUnset(vm.Config, &spec)
	spec.NumCoresPerSocket = v.setCores(ctx, vm, spec.NumCoresPerSocket)
	_, fault = v.inner(ctx, vm.Self, func() soap.HasFault {
		return vm.ReconfigVMTask(ctx, &types.ReconfigVM_Task{This: vm.Self, Spec: spec})
	})
	if fault == nil {
		v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "config.changeVersion", Val: version}})
		if isTrue(spec.VAppConfigRemoved) {
			vm.Config.VAppConfig = nil
		}
		v.assign(ctx, vm, &spec)
	}
	return fault
}

// laterVersion returns a changeVersion that is greater than the VM's current one. Like the simulator's, it is a time in nanoseconds, but in virtual
// time two changes can have the same time.
func laterVersion(vm *simulator.VirtualMachine) string {
	was, _ := strconv.ParseInt(vm.Config.ChangeVersion, 10, 64)
	return strconv.FormatInt(max(time.Now().UnixNano(), was+1), 10)
}

// Amend changes properties in the VM's configuration file, and so its changeVersion. The caller holds the world lock.
func (v *inventory) Amend(ctx *simulator.Context, vm *simulator.VirtualMachine, changes ...types.PropertyChange) {
	v.objects.AtomicUpdate(ctx, vm, append(changes,
		types.PropertyChange{Name: "config.changeVersion", Val: laterVersion(vm)},
		types.PropertyChange{Name: "config.modified", Val: time.Now()}))
}

// RelocateVMTask has a latency, and can move single disks, and the VM from its host's list to another's, which the simulator can't. The simulator's own work waits for another task with the
// VM locked, so it must run under the world lock.
//
// [doc] VirtualMachineRelocateSpec.disk: "An optional list that allows specifying the datastore location for each virtual disk".
func (vm *machine) RelocateVMTask(_ *simulator.Context, req *types.RelocateVM_Task) soap.HasFault {
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		if _, fault := vm.v.policiesOf(vm.VirtualMachine, req.Spec); fault != nil {
			return nil, fault
		}
		was := vm.Runtime.Host
		res, fault := vm.v.inner(ctx, vm.Self, func() soap.HasFault { return vm.VirtualMachine.RelocateVMTask(ctx, req) })
		if fault == nil && req.Spec.Host != nil {
			from, to := vm.v.objects.Get(*was).(*simulator.HostSystem), vm.v.objects.Get(*req.Spec.Host).(*simulator.HostSystem)
			vm.v.objects.RemoveReference(ctx, from, &from.Vm, vm.Self)
			vm.v.objects.AddReference(ctx, to, &to.Vm, vm.Self)
		}
		for _, e := range vm.v.objects.All("ClusterComputeResource") {
			if c := e.(*simulator.ClusterComputeResource); !vm.v.world.Below(*vm.ResourcePool, c.Self) {
				vm.v.leaveGroups(c, vm.Self)
			}
		}
		for _, at := range req.Spec.Disk {
			if fault == nil {
				vm.v.moveDisk(ctx, vm.VirtualMachine, at)
			}
		}
		vm.v.disks.Relocated(vm.VirtualMachine)
		return res, fault
	}
	return &methods.RelocateVM_TaskBody{Res: &types.RelocateVM_TaskResponse{Returnval: vm.work(Relocate, do)}}
}
