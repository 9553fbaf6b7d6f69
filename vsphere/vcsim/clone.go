package vcsim

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// CloneVMTask locks neither the source nor the folder during the latency, so that clones of one template run in parallel; the simulator
// serializes them. The task reserves the name when it starts, and the complete VM appears when it ends.
//
// [doc] CloneVM_Task: DuplicateName if the name is in use in the target folder; the clone has the source's configuration, extraConfig
// included, unless spec.config overrides it.
func (vm *machine) CloneVMTask(ctx *simulator.Context, req *types.CloneVM_Task) soap.HasFault {
	target := place{req.Folder, escape(req.Name)}
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
	if vm.v.behavior.RefuseLate {
		w.check, w.pause = nil, func(*simulator.Context, *job) (types.BaseMethodFault, bool) { return fault, true }
	}
	return &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: vm.v.begin(vm.call, w)}}
}

// claimOf returns the units of hosts that a clone needs.
func claimOf(source *simulator.VirtualMachine, at *types.VirtualMachineRelocateSpec) claim {
	var from, to types.ManagedObjectReference
	if source.Runtime.Host != nil {
		from, to = *source.Runtime.Host, *source.Runtime.Host
	}
	if at.Host != nil {
		to = *at.Host
	}
	return cloneClaim(from.Value, to.Value, at.DiskMoveType == string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking))
}

// directory returns a name for a directory of that VM.
func (v *inventory) directory(vm string) string {
	if v.behavior.NameDirectoriesByID {
		return uuid.NewString()
	}
	return vm
}

// clone creates a VM like its source and then reconfigures it by the spec. The caller holds the world lock, so clients see only the
// result.
func (v *inventory) clone(ctx *simulator.Context, source *simulator.VirtualMachine, target place, spec types.VirtualMachineCloneSpec) (types.AnyType, types.BaseMethodFault) {
	if fault := v.taken(target, nil); fault != nil { // the name is taken, or the folder was removed
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
	if fault := v.encryptsAsItClones(&spec); fault != nil {
		return nil, fault
	}
	if fault := v.countsAdapters(point.config, spec.Customization); fault != nil {
		return nil, fault
	}
	create.Config = v.specOf(point.config, target.name, spec.Location.Datastore)
	res, fault := v.inner(ctx, f.Self, func() soap.HasFault { return f.CreateVMTask(ctx, create) })
	if fault != nil {
		return nil, fault
	}
	v.hideCreation(ctx, res.(types.ManagedObjectReference))
	vm := v.renumbered(ctx, v.objects.Get(res.(types.ManagedObjectReference)).(*simulator.VirtualMachine))
	v.postClone(ctx, source, vm, f)
	if point.linked {
		link(vm, point)
	}
	inheritHardware(vm, point.config)
	v.cloneTPM(ctx, vm, tpmOf(point.config.Hardware.Device), spec.TpmProvisionPolicy)
	v.policies[vm.Self] = policies
	if fault := v.finishClone(ctx, vm, spec); fault != nil {
		_, _ = v.destroy(ctx, vm)
		return nil, fault
	}
	if spec.PowerOn {
		// As in a real vCenter, this is a separate task, and the clone task does not wait for it.
		on := &machine{VirtualMachine: vm, call: &call{ctx, "PowerOnVM_Task"}, v: v}
		on.PowerOnVMTask(ctx, &types.PowerOnVM_Task{This: vm.Self})
	}
	return vm.Self, nil
}

// countsAdapters returns the fault if vCenter compares the customization of a clone with the adapters of its source, and finds another number.
func (v *inventory) countsAdapters(source *types.VirtualMachineConfigInfo, c *types.CustomizationSpec) types.BaseMethodFault {
	has := len(object.VirtualDeviceList(source.Hardware.Device).SelectByType((*types.VirtualEthernetCard)(nil)))
	if !v.behavior.CountSourceAdapters || c == nil || len(c.NicSettingMap) == has {
		return nil
	}
	return &types.NicSettingMismatch{NumberOfNicsInSpec: int32(len(c.NicSettingMap)), NumberOfNicsInVM: int32(has)}
}

func (v *inventory) finishClone(ctx *simulator.Context, vm *simulator.VirtualMachine, spec types.VirtualMachineCloneSpec) types.BaseMethodFault {
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
	if spec.Customization == nil {
		return nil
	}
	return v.customize(ctx, vm, *spec.Customization)
}

// specOf returns the spec of a copy of a VM with this configuration. The caller holds the VM's lock.
func (v *inventory) specOf(c *types.VirtualMachineConfigInfo, name string, datastore *types.ManagedObjectReference) types.VirtualMachineConfigSpec {
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
		detach(reflect.ValueOf(&d).Elem())
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

// locate sets the pool, host and datastore of a clone, and rejects invalid ones, on which the simulator panics. The caller holds the world lock.
//
// [doc] VirtualMachineRelocateSpec.pool: "For a clone operation from a template to a virtual machine, this argument is required"; .host:
// "if a resource pool is specified, the target pool represents a cluster, and this is a clone ..., a random compatible host is chosen";
// .datastore: "If not specified, the current datastore is used". An invalid place is an InvalidArgument, a datastore that the hosts do not
// reach an InvalidDatastore.
func (v *inventory) locate(create *types.CreateVM_Task, source *simulator.VirtualMachine, at types.VirtualMachineRelocateSpec) types.BaseMethodFault {
	pool := at.Pool
	if pool == nil {
		pool = source.ResourcePool
	}
	if pool == nil {
		return wrongLocation("pool")
	}
	if v.objects.Get(*pool) == nil { // it vanished during the latency
		return &types.ManagedObjectNotFound{Obj: *pool}
	}
	create.Pool = *pool
	hosts := v.hostsOf(*pool)
	if at.Host != nil {
		if !slices.Contains(hosts, *at.Host) {
			return wrongLocation("host")
		}
		create.Host = at.Host
	} else if host := v.firstWithoutDRS(hosts); host != nil {
		create.Host = host
	}
	dc, to := v.world.DatacenterOf(*pool), v.world.DatacenterOf(create.This)
	if dc == nil || dc != to {
		return wrongLocation("folder")
	}
	return v.checkDatastore(source, dc, hosts, at.Datastore)
}

// checkDatastore rejects a datastore in maintenance mode, or one that no host of the pool mounts.
func (v *inventory) checkDatastore(source *simulator.VirtualMachine, dc *simulator.Datacenter, hosts []types.ManagedObjectReference, at *types.ManagedObjectReference) types.BaseMethodFault {
	var ds *simulator.Datastore
	if at != nil {
		ds, _ = v.objects.Get(*at).(*simulator.Datastore)
	} else {
		var path object.DatastorePath
		path.FromString(source.Config.Files.VmPathName)
		if from := v.world.DatacenterOf(source.Self); from != nil { // a datastore of another datacenter may have the same name
			ds, _ = v.objects.FindByName(path.Datastore, from.Datastore).(*simulator.Datastore)
		}
	}
	if ds == nil || !slices.Contains(dc.Datastore, ds.Self) || !slices.ContainsFunc(hosts, func(host types.ManagedObjectReference) bool {
		return slices.ContainsFunc(ds.Host, func(mount types.DatastoreHostMount) bool { return mount.Key == host })
	}) {
		fault := new(types.InvalidDatastore)
		if ds != nil {
			fault.Datastore, fault.Name = &ds.Self, ds.Name
		}
		return fault
	}
	if ds.Summary.MaintenanceMode == string(types.DatastoreSummaryMaintenanceModeStateInMaintenance) {
		return &types.InvalidDatastoreState{DatastoreName: ds.Name} // [doc] "in an invalid state (e.g., maintenance mode) for a given operation"
	}
	if ds.Summary.FreeSpace == 0 { // FillDatastore
		return &types.NoDiskSpace{FileFault: types.FileFault{File: fmt.Sprintf("[%s]", ds.Name)}, Datastore: ds.Name}
	}
	return nil
}

func wrongLocation(property string) types.BaseMethodFault {
	return &types.InvalidArgument{InvalidProperty: "spec.location." + property}
}

// hostsOf lists the hosts on which a pool's VMs can run.
func (v *inventory) hostsOf(pool types.ManagedObjectReference) []types.ManagedObjectReference {
	for at := range v.world.Up(pool) {
		if c, is := v.objects.Get(at).(*simulator.ClusterComputeResource); is {
			return c.Host
		}
	}
	return nil
}

// requested are the ids of the storage policies that a VM was created with.
type requested struct {
	home  []string
	disks map[int32][]string // by the disk's key, the same in source and clone
}

// policiesOf reads the storage policies of a clone spec and rejects those that do not exist.
//
// [doc] VirtualMachineRelocateSpec.profile: "Storage profile requirement for Virtual Machine's home directory";
// VirtualMachineRelocateSpecDiskLocator.profile: "Virtual Disk Profile requirement".
func (v *inventory) policiesOf(source *simulator.VirtualMachine, at types.VirtualMachineRelocateSpec) (requested, types.BaseMethodFault) {
	var fault types.BaseMethodFault
	p := requested{disks: make(map[int32][]string)}
	if p.home, fault = v.profileIDs(at.Profile, "spec.location.profile"); fault != nil {
		return p, fault
	}
	disks := disksIn(source.Config.Hardware.Device)
	for i, disk := range at.Disk {
		if !slices.ContainsFunc(disks, func(d *types.VirtualDisk) bool { return d.Key == disk.DiskId }) {
			return p, wrongLocation(fmt.Sprintf("disk[%d].diskId", i))
		}
		if v.objects.Get(disk.Datastore) == nil {
			return p, &types.ManagedObjectNotFound{Obj: disk.Datastore}
		}
		if p.disks[disk.DiskId], fault = v.profileIDs(disk.Profile, fmt.Sprintf("spec.location.disk[%d].profile", i)); fault != nil {
			return p, fault
		}
	}
	return p, nil
}

func (v *inventory) profileIDs(specs []types.BaseVirtualMachineProfileSpec, property string) (ids []string, fault types.BaseMethodFault) {
	for _, spec := range specs {
		defined, ok := spec.(*types.VirtualMachineDefinedProfileSpec)
		if !ok {
			continue // the default or an empty profile
		}
		if !v.profiles.has(defined.ProfileId) {
			return nil, &types.InvalidArgument{InvalidProperty: property}
		}
		ids = append(ids, defined.ProfileId)
	}
	return ids, nil
}

// snapshot takes a snapshot. From then on the VM writes to deltas of its disks.
func (v *inventory) snapshot(ctx *simulator.Context, vm *simulator.VirtualMachine, req *types.CreateSnapshot_Task) (types.AnyType, types.BaseMethodFault) {
	made, fault := v.inner(ctx, vm.Self, func() soap.HasFault { return vm.CreateSnapshotTask(ctx, req) })
	if fault == nil {
		v.rebase(ctx, vm, deltaOf)
	}
	return made, fault
}

// RemoveAllSnapshotsTask has a latency and merges the deltas.
func (vm *machine) RemoveAllSnapshotsTask(_ *simulator.Context, req *types.RemoveAllSnapshots_Task) soap.HasFault {
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		res, fault := vm.v.inner(ctx, vm.Self, func() soap.HasFault { return vm.VirtualMachine.RemoveAllSnapshotsTask(ctx, req) })
		if fault == nil {
			vm.v.rebase(ctx, vm.VirtualMachine, merged)
		}
		return res, fault
	}
	return &methods.RemoveAllSnapshots_TaskBody{Res: &types.RemoveAllSnapshots_TaskResponse{Returnval: vm.work(RemoveSnapshots, do)}}
}

// AddSnapshot takes a snapshot of a VM or template. (In a real vCenter, a template must become a VM for this.)
func (v *inventory) AddSnapshot(where, name string) (ref types.ManagedObjectReference, err error) {
	err = v.changeVM("take a snapshot of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		made, fault := v.snapshot(ctx, vm, &types.CreateSnapshot_Task{This: vm.Self, Name: name})
		if fault == nil {
			ref = made.(types.ManagedObjectReference)
			v.world.Mark(vm.Self)
		}
		return fault
	})
	return ref, err
}

// clonePoint is the source configuration of a clone, and whether the clone shares the source's disks.
type clonePoint struct {
	config *types.VirtualMachineConfigInfo
	linked bool
}

// pointOf returns the part of a source that spec clones.
//
// [doc] VirtualMachineCloneSpec.snapshot: "the newly created virtual machine will have the same configuration as the virtual machine at the
// time the snapshot was taken. If this property is not set then the clone is based off of the virtual machine's current configuration".
// VirtualMachineRelocateDiskMoveOptions, createNewChildDiskBacking: "for a clone this option is only valid when cloning from a snapshot".
// moveChildMostDiskBacking shares the parents of the source's disk, if it has any.
func (v *inventory) pointOf(source *simulator.VirtualMachine, spec types.VirtualMachineCloneSpec) (clonePoint, types.BaseMethodFault) {
	point := clonePoint{config: source.Config}
	move := types.VirtualMachineRelocateDiskMoveOptions(spec.Location.DiskMoveType)
	point.linked = move == types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking
	if spec.Snapshot == nil {
		if point.linked {
			return point, &types.InvalidArgument{InvalidProperty: "spec.location.diskMoveType"}
		}
		return point, nil
	}
	snapshot, ok := v.objects.Get(*spec.Snapshot).(*simulator.VirtualMachineSnapshot)
	if !ok {
		return point, &types.ManagedObjectNotFound{Obj: *spec.Snapshot}
	}
	point.config = &snapshot.Config
	return point, nil
}

// link makes a clone's disks children of the source's disks, with the same uuids (govmomi#1682: a linked clone's disks have the source's uuids, a
// full clone's disks have new ones).
func link(vm *simulator.VirtualMachine, point clonePoint) {
	parents := disksIn(point.config.Hardware.Device)
	for i, disk := range disksIn(vm.Config.Hardware.Device) {
		if i >= len(parents) {
			return
		}
		child, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
		parent, is := parents[i].Backing.(*types.VirtualDiskFlatVer2BackingInfo)
		if ok && is {
			shared := *parent
			child.Parent, child.Uuid = &shared, shared.Uuid
		}
	}
}

// AddTPM gives the VM or template with a path or name a virtual TPM, with secrets of its own.
func (v *inventory) AddTPM(where string) error {
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

// cloneTPM gives a clone of a VM with a virtual TPM a copy of the TPM and its secrets, or a new TPM.
//
// [doc] VirtualMachineCloneSpec.tpmProvisionPolicy (8.0.0.1): "If unset - a globally defined policy is used, which by default is set to
// 'copy'."
func (v *inventory) cloneTPM(ctx *simulator.Context, vm *simulator.VirtualMachine, of *types.VirtualTPM, policy string) {
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

// SetVAppProperties gives a VM or template vApp properties, as an OVA does, with a transport through which guests read them. Clones inherit
// them.
func (v *inventory) SetVAppProperties(where string) error {
	return v.changeVM("give vApp properties to", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.Amend(ctx, vm, types.PropertyChange{Name: "config.vAppConfig", Val: &types.VmConfigInfo{
			Property:                []types.VAppPropertyInfo{{Key: 0, Id: "user-data", Type: "string", UserConfigurable: types.NewBool(true)}},
			OvfEnvironmentTransport: []string{"com.vmware.guestInfo"},
		}})
		return nil
	})
}

// readsOVF reports whether cloud-init in a VM's guest finds an OVF environment. It then ignores guestinfo, unless configured otherwise or
// affected by canonical/cloud-init#5912.
func readsOVF(vm *simulator.VirtualMachine) bool {
	c := vm.Config.VAppConfig
	return c != nil && len(c.GetVmConfigInfo().OvfEnvironmentTransport) > 0
}

// BootFromNetwork puts the network adapters of a VM or template first in its boot order. Clones inherit the boot order.
func (v *inventory) BootFromNetwork(where string) error {
	return v.changeVM("set the boot order of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		options := new(types.VirtualMachineBootOptions)
		for _, d := range vm.Config.Hardware.Device {
			if _, is := d.(types.BaseVirtualEthernetCard); is {
				options.BootOrder = append(options.BootOrder, &types.VirtualMachineBootOptionsBootableEthernetDevice{DeviceKey: d.GetVirtualDevice().Key})
			}
		}
		v.Amend(ctx, vm, types.PropertyChange{Name: "config.bootOptions", Val: options})
		return nil
	})
}

// bootsFromRemoved rejects a clone spec that removes an adapter in the boot order of its source (fog/fog-vsphere#98: "A specified parameter
// was not correct (configSpec.bootOptions.bootOrder)").
func bootsFromRemoved(vm *simulator.VirtualMachine, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	if vm.Config.BootOptions == nil {
		return nil
	}
	for _, c := range changes {
		x := c.GetVirtualDeviceConfigSpec()
		if x.Device != nil && x.Operation == types.VirtualDeviceConfigSpecOperationRemove &&
			slices.ContainsFunc(vm.Config.BootOptions.BootOrder, func(d types.BaseVirtualMachineBootOptionsBootableDevice) bool {
				card, is := d.(*types.VirtualMachineBootOptionsBootableEthernetDevice)
				return is && card.DeviceKey == x.Device.GetVirtualDevice().Key
			}) {
			return &types.InvalidArgument{InvalidProperty: "configSpec.bootOptions.bootOrder"}
		}
	}
	return nil
}

// bootsFromMissing rejects a boot order that names a device that the VM does not have. The fault is that of bootsFromRemoved.
func bootsFromMissing(vm *simulator.VirtualMachine, options *types.VirtualMachineBootOptions) types.BaseMethodFault {
	if options == nil {
		return nil
	}
	devices := object.VirtualDeviceList(vm.Config.Hardware.Device)
	for _, d := range options.BootOrder {
		var found bool
		switch d := d.(type) {
		case *types.VirtualMachineBootOptionsBootableEthernetDevice:
			_, found = devices.FindByKey(d.DeviceKey).(types.BaseVirtualEthernetCard)
		case *types.VirtualMachineBootOptionsBootableDiskDevice:
			_, found = devices.FindByKey(d.DeviceKey).(*types.VirtualDisk)
		}
		if !found {
			return &types.InvalidArgument{InvalidProperty: "configSpec.bootOptions.bootOrder"}
		}
	}
	return nil
}
