package managed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// VM is the current state of a VM, regardless of privileges.
type VM struct {
	Ref          types.ManagedObjectReference
	Path         string // in the inventory: /DC0/vm/folder/name
	Name         string
	Power        types.VirtualMachinePowerState
	Template     bool
	CPUs         int32
	MemoryMB     int32
	InstanceUUID string
	Boot         time.Time // when the VM was powered on; zero while it is off
	Tools        bool      // VMware Tools run
	IP           string
	ExtraConfig  map[string]string
}

// VMs lists all VMs and templates, sorted by path.
func (v *Objects) VMs() []VM {
	v.world.RLock()
	defer v.world.RUnlock()
	ctx := v.world.Context()
	var vms []VM
	for _, e := range v.objects.All("VirtualMachine") {
		vms = append(vms, v.look(ctx, e.(*simulator.VirtualMachine)))
	}
	slices.SortFunc(vms, func(a, b VM) int { return strings.Compare(a.Path, b.Path) })
	return vms
}

// look describes a VM. The caller holds the world lock.
func (v *Objects) look(ctx *simulator.Context, vm *simulator.VirtualMachine) (one VM) {
	v.objects.WithLock(ctx, vm.Self, func() {
		one = VM{
			Ref: vm.Self, Name: vm.Name, Power: vm.Runtime.PowerState, Template: vm.Config.Template,
			CPUs: vm.Config.Hardware.NumCPU, MemoryMB: vm.Config.Hardware.MemoryMB,
			InstanceUUID: vm.Config.InstanceUuid, Tools: toolsRun(vm), IP: vm.Guest.IpAddress, ExtraConfig: make(map[string]string),
		}
		if vm.Runtime.BootTime != nil {
			one.Boot = *vm.Runtime.BootTime
		}
		for _, o := range vm.Config.ExtraConfig {
			one.ExtraConfig[o.GetOptionValue().Key] = fmt.Sprint(o.GetOptionValue().Value)
		}
	})
	one.Path = v.world.Path(vm.Self)
	return one
}

// Find returns the object at an inventory path or, if where does not begin with "/", the only VM with this name.
func (v *Objects) Find(where string) (types.ManagedObjectReference, error) {
	if !strings.HasPrefix(where, "/") {
		var found []VM
		for _, vm := range v.VMs() {
			if vm.Name == where {
				found = append(found, vm)
			}
		}
		if len(found) != 1 {
			return types.ManagedObjectReference{}, fmt.Errorf("%d VMs are named %s", len(found), where)
		}
		return found[0].Ref, nil
	}
	v.world.RLock()
	defer v.world.RUnlock()
	if ref := v.world.At(where); ref != nil {
		return *ref, nil
	}
	return types.ManagedObjectReference{}, fmt.Errorf("%s does not exist", where)
}

// FirstPlace returns the first datastore of a datacenter and the root pool of its first cluster.
func (v *Objects) FirstPlace(datacenter string) (datastore string, pool types.ManagedObjectReference, err error) {
	v.world.RLock()
	defer v.world.RUnlock()
	for _, e := range v.objects.All("Datacenter") {
		dc := e.(*simulator.Datacenter)
		if dc.Name != datacenter {
			continue
		}
		for _, ref := range v.objects.Get(dc.DatastoreFolder).(*simulator.Folder).ChildEntity {
			if ds, is := v.objects.Get(ref).(*simulator.Datastore); is && datastore == "" {
				datastore = ds.Name
			}
		}
		for _, ref := range v.objects.Get(dc.HostFolder).(*simulator.Folder).ChildEntity {
			if c, is := v.objects.Get(ref).(*simulator.ClusterComputeResource); is && datastore != "" {
				return datastore, *c.ResourcePool, nil
			}
		}
	}
	return "", pool, fmt.Errorf("no datacenter %s with a datastore and a cluster", datacenter)
}
