package managed

import (
	"reflect"
	"slices"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/course"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// CloneVMTask locks neither the source nor the folder during the latency, so that clones of one template run in parallel; the simulator
// serializes them. The task reserves the name when it starts, and the complete VM appears when it ends.
//
// [doc] CloneVM_Task: DuplicateName if the name is in use in the target folder; the clone has the source's configuration, extraConfig
// included, unless spec.config overrides it.
func (vm *machine) CloneVMTask(ctx *simulator.Context, req *types.CloneVM_Task) soap.HasFault {
	target := place{req.Folder, world.Escape(req.Name)}
	release, fault := vm.v.reserve(target)
	w := work{
		kind: Clone, entity: vm.VirtualMachine, name: target.name, end: release, claim: claimOf(vm.VirtualMachine, &req.Spec.Location),
		check: func(*simulator.Context) types.BaseMethodFault {
			if fault != nil {
				return fault
			}
			return vm.v.taken(target, nil)
		},
		do: func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
			return vm.v.clone(ctx, vm.VirtualMachine, target, req.Spec)
		},
	}
	if vm.v.refuseLate.Load() {
		w.check, w.pause = nil, func(*simulator.Context, *job) (types.BaseMethodFault, bool) { return fault, true }
	}
	return &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: vm.v.begin(vm.Guard, w)}}
}

// claimOf returns the units of hosts that a clone needs.
func claimOf(source *simulator.VirtualMachine, at *types.VirtualMachineRelocateSpec) course.Claim {
	var from, to types.ManagedObjectReference
	if source.Runtime.Host != nil {
		from, to = *source.Runtime.Host, *source.Runtime.Host
	}
	if at.Host != nil {
		to = *at.Host
	}
	return course.Clone(from.Value, to.Value, at.DiskMoveType == string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking))
}

// RefuseLate sets whether a clone fails only at its end, instead of at once, when another VM in creation has its name.
func (v *Objects) RefuseLate(late bool) { v.refuseLate.Store(late) }

// NameDirectoriesByID sets whether the directories of clones, and of disks that are moved, have UUIDs for names, as on vSAN, instead of the
// names of their VMs.
func (v *Objects) NameDirectoriesByID(byID bool) { v.idDirectories.Store(byID) }

// directory returns a name for a directory of that VM.
func (v *Objects) directory(vm string) string {
	if v.idDirectories.Load() {
		return uuid.NewString()
	}
	return vm
}

// clone creates a VM like its source and then reconfigures it as the spec says. The caller holds the world lock, so clients see only the
// result.
func (v *Objects) clone(ctx *simulator.Context, source *simulator.VirtualMachine, target place, spec types.VirtualMachineCloneSpec) (types.AnyType, types.BaseMethodFault) {
	if fault := v.taken(target, nil); fault != nil { // or the folder is gone
		return nil, fault
	}
	point, fault := v.pointOf(source, spec)
	if fault != nil {
		return nil, fault
	}
	f := v.objects.Get(target.folder).(*simulator.Folder)
	create := &types.CreateVM_Task{This: f.Self}
	if fault := v.locate(create, source, spec.Location); fault != nil {
		return nil, fault
	}
	policies, fault := v.policiesOf(source, spec.Location)
	if fault != nil {
		return nil, fault
	}
	v.objects.WithLock(ctx, source.Self, func() { create.Config = v.specOf(point.config, target.name, spec.Location.Datastore) })
	res, fault := v.inner(ctx, f.Self, func() soap.HasFault { return f.CreateVMTask(ctx, create) })
	if fault != nil {
		return nil, fault
	}
	vm := v.renumbered(ctx, v.objects.Get(res.(types.ManagedObjectReference)).(*simulator.VirtualMachine))
	if point.linked {
		link(vm, point)
	}
	vm.Config.VAppConfig = point.config.VAppConfig
	vm.Config.Hardware.AutoCoresPerSocket = point.config.Hardware.AutoCoresPerSocket
	vm.Config.BootOptions = point.config.BootOptions
	v.cloneTPM(ctx, vm, tpmOf(point.config.Hardware.Device), spec.TpmProvisionPolicy)
	if fault := v.finishClone(ctx, vm, spec); fault != nil {
		_, _ = v.destroy(ctx, vm)
		return nil, fault
	}
	v.policies[vm.Self] = policies
	if spec.PowerOn && !spec.Template {
		// As in a real vCenter, this is a separate task, and the clone task does not wait for it.
		on := &machine{VirtualMachine: vm, Guard: v.world.Guard(ctx, "PowerOnVM_Task"), v: v}
		v.objects.WithLock(ctx, vm.Self, func() { on.PowerOnVMTask(ctx, &types.PowerOnVM_Task{This: vm.Self}) })
	}
	return vm.Self, nil
}

func (v *Objects) finishClone(ctx *simulator.Context, vm *simulator.VirtualMachine, spec types.VirtualMachineCloneSpec) types.BaseMethodFault {
	var change types.VirtualMachineConfigSpec
	if spec.Config != nil {
		change = *spec.Config
	}
	change.Name, change.Files, change.ChangeVersion = "", nil, ""
	change.DeviceChange = append(slices.Clone(spec.Location.DeviceChange), change.DeviceChange...)
	if fault := bootsFromRemoved(vm, change.DeviceChange); fault != nil {
		return fault
	}
	if fault := v.configure(ctx, vm, change); fault != nil {
		return fault
	}
	if spec.Template {
		v.objects.WithLock(ctx, vm.Self, func() { vm.MarkAsTemplate(&types.MarkAsTemplate{This: vm.Self}) })
		return nil
	}
	if spec.Customization == nil {
		return nil
	}
	return v.customize(ctx, vm, *spec.Customization)
}

// specOf returns the spec of a copy of a VM with this configuration. The caller holds the VM's lock.
func (v *Objects) specOf(c *types.VirtualMachineConfigInfo, name string, datastore *types.ManagedObjectReference) types.VirtualMachineConfigSpec {
	var path object.DatastorePath
	path.FromString(c.Files.VmPathName)
	if datastore != nil {
		path.Datastore = v.objects.Get(*datastore).(*simulator.Datastore).Name
	}
	path.Path = v.directory(name)
	spec := types.VirtualMachineConfigSpec{
		Name: name, Version: c.Version, GuestId: c.GuestId, Annotation: c.Annotation, Firmware: c.Firmware,
		Files: &types.VirtualMachineFileInfo{VmPathName: path.String()},
		// The simulator derives these from the name, so a recreated VM would get its predecessor's.
		Uuid: uuid.NewString(), InstanceUuid: uuid.NewString(),
		NumCPUs: c.Hardware.NumCPU, NumCoresPerSocket: c.Hardware.NumCoresPerSocket, MemoryMB: int64(c.Hardware.MemoryMB),
		CpuHotAddEnabled: c.CpuHotAddEnabled, CpuHotRemoveEnabled: c.CpuHotRemoveEnabled, MemoryHotAddEnabled: c.MemoryHotAddEnabled,
	}
	for _, o := range c.ExtraConfig {
		copied := *o.GetOptionValue()
		spec.ExtraConfig = append(spec.ExtraConfig, &copied)
	}
	made := object.VirtualDeviceList(esx.VirtualDevice) // the devices of every new VM
	for _, d := range c.Hardware.Device {
		if made.FindByKey(d.GetVirtualDevice().Key) != nil {
			continue
		}
		world.Detach(reflect.ValueOf(&d).Elem())
		add := &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: d}
		if disk, ok := d.(*types.VirtualDisk); ok {
			add.FileOperation, disk.VDiskId = types.VirtualDeviceConfigSpecFileOperationCreate, nil
			if b, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
				// a new file in the VM's directory, with the same contents
				b.FileName, b.Uuid, b.Parent, b.Datastore = "", uuid.NewString(), nil, nil
			}
		}
		if nic, ok := d.(types.BaseVirtualEthernetCard); ok {
			nic.GetVirtualEthernetCard().MacAddress = "" // [doc] a clone's generated address is a new one
			v.setMAC(nic.GetVirtualEthernetCard())
		}
		spec.DeviceChange = append(spec.DeviceChange, add)
	}
	return spec
}
