package vcsim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// VM is a VM as it is now, whoever may see it.
type VM struct {
	Ref          types.ManagedObjectReference
	Path         string // in the inventory: /DC0/vm/folder/name
	Name         string
	Power        types.VirtualMachinePowerState
	Template     bool
	CPUs         int32
	MemoryMB     int32
	InstanceUUID string
	Boot         time.Time // when it was powered on; zero while it is off
	Tools        bool      // VMware Tools run
	IP           string
	ExtraConfig  map[string]string
}

// VMs lists all VMs and templates, ordered by path.
func (v *VCenter) VMs() []VM {
	v.world.RLock()
	defer v.world.RUnlock()
	ctx := v.world.context()
	var vms []VM
	for _, e := range v.objects.All("VirtualMachine") {
		vms = append(vms, v.look(ctx, e.(*simulator.VirtualMachine)))
	}
	slices.SortFunc(vms, func(a, b VM) int { return strings.Compare(a.Path, b.Path) })
	return vms
}

// look describes a VM. The caller holds the world.
func (v *VCenter) look(ctx *simulator.Context, vm *simulator.VirtualMachine) (one VM) {
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
	one.Path = v.path(vm.Self)
	return one
}

// path spells an object's place in the inventory. The caller holds the world.
func (v *VCenter) path(ref types.ManagedObjectReference) string {
	var names []string
	for {
		e, ok := v.objects.Get(ref).(mo.Entity)
		if !ok || e.Entity().Parent == nil { // the root has no name here
			slices.Reverse(names)
			return "/" + strings.Join(names, "/")
		}
		names = append(names, e.Entity().Name)
		ref = *e.Entity().Parent
	}
}

// Find returns what is at an inventory path, or the one VM of a name if where does not begin with "/".
func (v *VCenter) Find(where string) (types.ManagedObjectReference, error) {
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
	ref, err := object.NewSearchIndex(v.admin.Client).FindByInventoryPath(context.Background(), where)
	if err != nil {
		return types.ManagedObjectReference{}, fmt.Errorf("find %s: %w", where, err)
	}
	if ref == nil {
		return types.ManagedObjectReference{}, fmt.Errorf("nothing is at %s", where)
	}
	return ref.Reference(), nil
}

// MakeFolder makes a folder at a path, and those above it that are missing.
func (v *VCenter) MakeFolder(path string) (types.ManagedObjectReference, error) {
	if ref, err := v.Find(path); err == nil {
		return ref, nil
	}
	cut := strings.LastIndexByte(path, '/')
	if cut <= 0 {
		return types.ManagedObjectReference{}, fmt.Errorf("make folder %s: no datacenter is there", path)
	}
	parent, err := v.MakeFolder(path[:cut])
	if err != nil {
		return parent, err
	}
	f, err := object.NewFolder(v.admin.Client, parent).CreateFolder(context.Background(), path[cut+1:])
	if err != nil {
		return types.ManagedObjectReference{}, fmt.Errorf("make folder %s: %w", path, err)
	}
	return f.Reference(), nil
}

// onVM has an operator do something to the VM at a path, or of a name, and waits for the end of it.
func (v *VCenter) onVM(what, where string, do func(context.Context, *object.VirtualMachine) (*object.Task, error)) error {
	ref, err := v.Find(where)
	if err == nil {
		ctx := context.Background()
		var task *object.Task
		if task, err = do(ctx, object.NewVirtualMachine(v.admin.Client, ref)); err == nil && task != nil {
			_, err = v.result(task)
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, where, err)
	}
	return nil
}

// PowerOn powers the VM at a path, or of a name, on.
func (v *VCenter) PowerOn(where string) error {
	return v.onVM("power on", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.PowerOn(ctx)
	})
}

// PowerOff pulls the VM's plug.
func (v *VCenter) PowerOff(where string) error {
	return v.onVM("power off", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.PowerOff(ctx)
	})
}

// Reset pushes the VM's reset button.
func (v *VCenter) Reset(where string) error {
	return v.onVM("reset", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Reset(ctx)
	})
}

// Destroy destroys the VM or template, powered off or not.
func (v *VCenter) Destroy(where string) error {
	return v.onVM("destroy", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		if state, err := vm.PowerState(ctx); err == nil && state == types.VirtualMachinePowerStatePoweredOn {
			if task, err := vm.PowerOff(ctx); err == nil {
				_, _ = v.result(task) // if it is still on, the destroy says so
			}
		}
		return vm.Destroy(ctx)
	})
}

// Rename renames the VM.
func (v *VCenter) Rename(where, name string) error {
	return v.onVM("rename", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Rename(ctx, name)
	})
}

// Move moves the VM into the folder at a path.
func (v *VCenter) Move(where, folderPath string) error {
	return v.onVM("move", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		folder, err := v.Find(folderPath)
		if err != nil {
			return nil, err
		}
		return object.NewFolder(v.admin.Client, folder).MoveInto(ctx, []types.ManagedObjectReference{vm.Reference()})
	})
}

// Reconfigure changes the VM's configuration.
func (v *VCenter) Reconfigure(where string, spec types.VirtualMachineConfigSpec) error {
	return v.onVM("reconfigure", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Reconfigure(ctx, spec)
	})
}

// SetExtraConfig sets one key of the VM's extraConfig; an empty value removes it.
func (v *VCenter) SetExtraConfig(where, key, value string) error {
	return v.Reconfigure(where, types.VirtualMachineConfigSpec{
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: key, Value: value}},
	})
}

// firstPool is where persons put VMs.
const firstPool = "/DC0/host/DC0_C0/Resources"

// CloneVM clones the VM or template into the folder at a path: the clone has its configuration, also
// its extraConfig, but an instanceUuid of its own.
func (v *VCenter) CloneVM(where, folderPath, name string) error {
	return v.onVM("clone", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		folder, err := v.Find(folderPath)
		if err != nil {
			return nil, err
		}
		pool, err := v.Find(firstPool)
		if err != nil {
			return nil, err
		}
		return vm.Clone(ctx, object.NewFolder(v.admin.Client, folder), name, types.VirtualMachineCloneSpec{
			Location: types.VirtualMachineRelocateSpec{Pool: &pool},
		})
	})
}

// ToTemplate makes the VM a template.
func (v *VCenter) ToTemplate(where string) error {
	return v.onVM("make a template of", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return nil, vm.MarkAsTemplate(ctx)
	})
}

// ToVM makes the template a VM, in the first cluster's pool.
func (v *VCenter) ToVM(where string) error {
	return v.onVM("make a VM of", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		pool, err := v.Find(firstPool)
		if err != nil {
			return nil, err
		}
		return nil, vm.MarkAsVirtualMachine(ctx, *object.NewResourcePool(v.admin.Client, pool), nil)
	})
}
