package vcsim

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"reflect"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// SavedVM is what a backup of a VM has: its configuration as it was, with instanceUuid and extraConfig.
type SavedVM struct {
	// Name and Config are the VM's. Config can be changed before a restore.
	Name   string
	Config types.VirtualMachineConfigInfo
	vm     *simulator.VirtualMachine
}

// Save makes a backup of the VM with a path or name.
func (v *inventory) Save(where string) (saved *SavedVM, err error) {
	err = v.changeVM("save", where, func(_ *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		copied := *vm
		saved = &SavedVM{Name: vm.Name, Config: copyOf(reflect.ValueOf(*vm.Config)).Interface().(types.VirtualMachineConfigInfo), vm: &copied}
		return nil
	})
	return saved, err
}

// RenewInstanceUUID gives the VM with a path or name another instanceUuid, as vCenter does when another VM has the same one.
//
// [doc] VirtualMachineConfigInfo.instanceUuid: vCenter assigns it, and changes it "when VirtualCenter detects an identifier conflict between virtual
// machines", also of a powered-on VM. VmInstanceUuidConflictEvent "records a conflict", VmInstanceUuidChangedEvent "a change", and monitoring products
// take the second for the end of the first (VMware Aria Operations for Networks, "VM instance UUID conflict").
func (v *inventory) RenewInstanceUUID(where string) error {
	return v.changeVM("renew the instanceUuid of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		defer asUser(ctx, "")()
		was := vm.Config.InstanceUuid
		of := v.vmEvent(vm)
		v.post(ctx, &types.VmInstanceUuidConflictEvent{VmEvent: of, ConflictedVm: *of.Vm, InstanceUuid: was})
		fault := v.configure(ctx, vm, types.VirtualMachineConfigSpec{InstanceUuid: uuid.NewString()})
		v.firstIDs[vm.Config.InstanceUuid] = cmp.Or(v.firstIDs[was], was)
		v.post(ctx, &types.VmInstanceUuidChangedEvent{VmEvent: v.vmEvent(vm), OldInstanceUuid: was, NewInstanceUuid: vm.Config.InstanceUuid})
		return fault
	})
}

// PutFiles puts the files of a saved VM into a new directory of the first datastore, as a backup product does, and returns the path of the .vmx
// file for RegisterVM_Task. The VM is off.
func (v *inventory) PutFiles(s *SavedVM, directory string) (vmx string, err error) {
	v.world.Lock()
	defer v.world.Unlock()
	vm := *s.vm
	config := copyOf(reflect.ValueOf(s.Config)).Interface().(types.VirtualMachineConfigInfo)
	dc := v.world.DatacenterOf(s.vm.Self)
	if dc == nil { // the VM is gone
		dc = v.objects.Any("Datacenter").(*simulator.Datacenter)
	}
	datastore := v.objects.FindByName(firstDatastore, dc.Datastore).(*simulator.Datastore)
	in := func(file string) string {
		return (&object.DatastorePath{Datastore: datastore.Name, Path: path.Join(directory, file)}).String()
	}
	vmx = in(s.Name + ".vmx")
	if v.removedAt(vmx) != nil {
		return "", fmt.Errorf("restore %s: the file exists", vmx)
	}
	config.Files.VmPathName = vmx
	n := 0
	config.Hardware.Device = rebased(config.Hardware.Device, func(_ int32, b flat) *flat {
		file := fmt.Sprintf("%s-restored-%d.vmdk", s.Name, n)
		n++
		b.FileName, b.Datastore, b.Parent, b.Uuid = in(file), &datastore.Self, nil, uuid.NewString()
		makeFiles(datastore.Summary.Url, path.Join(directory, file))
		return &b
	})
	guest := types.GuestInfo{ToolsStatus: s.vm.Guest.ToolsStatus, ToolsRunningStatus: string(types.VirtualMachineToolsRunningStatusGuestToolsNotRunning)}
	vm.Config, vm.Guest, vm.Snapshot, vm.Datastore = &config, &guest, nil, []types.ManagedObjectReference{datastore.Self}
	summary := types.VirtualMachineGuestSummary{}
	vm.Summary.Guest = &summary
	vm.Runtime.PowerState, vm.Summary.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff, types.VirtualMachinePowerStatePoweredOff
	vm.Runtime.BootTime, vm.Summary.Runtime.BootTime = nil, nil
	for _, disk := range disksIn(config.Hardware.Device) {
		disk.VDiskId = nil // a copy of a first-class disk is none
	}
	keepLog(datastore.Summary.Url, s.vm.Config.Files.VmPathName)
	v.removedVMs = append(v.removedVMs, &removedVM{vm: &vm, host: v.hostWith(datastore)})
	return vmx, nil
}

// keepLog makes the log of the VM that was saved again, in case that VM is destroyed: the simulator still writes the restored VM's lines to it.
func keepLog(datastore, vmx string) {
	var file object.DatastorePath
	file.FromString(vmx)
	log := path.Join(datastore, path.Dir(file.Path), "vmware.log")
	if err := os.MkdirAll(path.Dir(log), 0o750); err == nil {
		if f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND, 0o600); err == nil {
			_ = f.Close()
		}
	}
}

// hostWith returns the name of a host that mounts a datastore. The caller holds the world lock.
func (v *inventory) hostWith(datastore *simulator.Datastore) string {
	for _, mount := range datastore.Host {
		if host, is := v.objects.Get(mount.Key).(*simulator.HostSystem); is {
			return host.Name
		}
	}
	return ""
}
