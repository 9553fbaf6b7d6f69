package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Operator performs an operator's actions through vCenter's API, as Admin, and waits for their end.
type Operator struct {
	inventory
	admin    *govmomi.Client
	tags     func(context.Context) (*tags.Manager, error) // logs the admin in to REST
	policies policyStore
}

// New returns an operator with Admin's permissions.
func New(i inventory, admin *govmomi.Client, tags func(context.Context) (*tags.Manager, error), p policyStore) *Operator {
	return &Operator{inventory: i, admin: admin, tags: tags, policies: p}
}

// inventory is the whole inventory, regardless of privileges.
type inventory interface {
	// Find returns the object at an inventory path or, if where does not begin with "/", the only VM with this name.
	Find(where string) (types.ManagedObjectReference, error)
	// FirstPlace returns the first datastore of a datacenter and the root pool of its first cluster.
	FirstPlace(datacenter string) (datastore string, pool types.ManagedObjectReference, err error)
	// Result waits for a task.
	Result(begun *object.Task) (types.TaskInfo, error)
}

// policyStore creates storage policies.
type policyStore interface {
	// Add creates a policy for these datastores or, without any, for all.
	Add(id, name string, datastores ...types.ManagedObjectReference)
}

// MakeFolder creates the folder at a path and its missing parents.
func (o *Operator) MakeFolder(path string) (types.ManagedObjectReference, error) {
	if ref, err := o.Find(path); err == nil {
		return ref, nil
	}
	cut := strings.LastIndexByte(path, '/')
	if cut <= 0 {
		return types.ManagedObjectReference{}, fmt.Errorf("create folder %s: no such datacenter", path)
	}
	parent, err := o.MakeFolder(path[:cut])
	if err != nil {
		return parent, err
	}
	f, err := object.NewFolder(o.admin.Client, parent).CreateFolder(context.Background(), path[cut+1:])
	if err != nil {
		return types.ManagedObjectReference{}, fmt.Errorf("create folder %s: %w", path, err)
	}
	return f.Reference(), nil
}

// onVM calls do for the VM with a path or name and waits for its task.
func (o *Operator) onVM(what, where string, do func(context.Context, *object.VirtualMachine) (*object.Task, error)) error {
	ref, err := o.Find(where)
	if err == nil {
		ctx := context.Background()
		var task *object.Task
		if task, err = do(ctx, object.NewVirtualMachine(o.admin.Client, ref)); err == nil && task != nil {
			_, err = o.Result(task)
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, where, err)
	}
	return nil
}

// PowerOn powers on the VM with a path or name.
func (o *Operator) PowerOn(where string) error {
	return o.onVM("power on", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.PowerOn(ctx)
	})
}

// PowerOff powers off the VM without a guest shutdown.
func (o *Operator) PowerOff(where string) error {
	return o.onVM("power off", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.PowerOff(ctx)
	})
}

// Reset resets the VM.
func (o *Operator) Reset(where string) error {
	return o.onVM("reset", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Reset(ctx)
	})
}

// Destroy destroys the VM or template in any power state.
func (o *Operator) Destroy(where string) error {
	return o.onVM("destroy", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		if state, err := vm.PowerState(ctx); err == nil && state == types.VirtualMachinePowerStatePoweredOn {
			if task, err := vm.PowerOff(ctx); err == nil {
				_, _ = o.Result(task) // if this fails, the destroy does, too
			}
		}
		return vm.Destroy(ctx)
	})
}

// Answer answers the VM's question with the label of a choice.
func (o *Operator) Answer(where, choice string) error {
	return o.onVM("answer", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		var now mo.VirtualMachine
		if err := vm.Properties(ctx, vm.Reference(), []string{"runtime.question"}, &now); err != nil {
			return nil, err
		}
		q := now.Runtime.Question
		if q == nil {
			return nil, errors.New("the VM has no question")
		}
		for _, c := range q.Choice.ChoiceInfo {
			if d := c.GetElementDescription(); d.Label == choice {
				return nil, vm.Answer(ctx, q.Id, d.Key)
			}
		}
		return nil, fmt.Errorf("%q is not one of the choices", choice)
	})
}

// Unregister removes the VM from the inventory. vCenter refuses this for a powered-on VM.
func (o *Operator) Unregister(where string) error {
	return o.onVM("unregister", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return nil, vm.Unregister(ctx)
	})
}

// Rename renames the VM.
func (o *Operator) Rename(where, name string) error {
	return o.onVM("rename", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Rename(ctx, name)
	})
}

// Move moves the VM into the folder at a path.
func (o *Operator) Move(where, folderPath string) error {
	return o.onVM("move", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		folder, err := o.Find(folderPath)
		if err != nil {
			return nil, err
		}
		return object.NewFolder(o.admin.Client, folder).MoveInto(ctx, []types.ManagedObjectReference{vm.Reference()})
	})
}

// Reconfigure changes the VM's configuration.
func (o *Operator) Reconfigure(where string, spec types.VirtualMachineConfigSpec) error {
	return o.onVM("reconfigure", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return vm.Reconfigure(ctx, spec)
	})
}

// SetExtraConfig sets one key of the VM's extraConfig; an empty value removes it.
func (o *Operator) SetExtraConfig(where, key, value string) error {
	return o.Reconfigure(where, types.VirtualMachineConfigSpec{
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: key, Value: value}},
	})
}

// firstPool is the pool of new VMs.
const firstPool = "/DC0/host/DC0_C0/Resources"

// CloneVM clones the VM or template into the folder at a path, with its configuration and extraConfig but a new instanceUuid.
func (o *Operator) CloneVM(where, folderPath, name string) error {
	return o.onVM("clone", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		folder, err := o.Find(folderPath)
		if err != nil {
			return nil, err
		}
		pool, err := o.Find(firstPool)
		if err != nil {
			return nil, err
		}
		return vm.Clone(ctx, object.NewFolder(o.admin.Client, folder), name, types.VirtualMachineCloneSpec{
			Location: types.VirtualMachineRelocateSpec{Pool: &pool},
		})
	})
}

// ToTemplate converts the VM to a template.
func (o *Operator) ToTemplate(where string) error {
	return o.onVM("convert to a template", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		return nil, vm.MarkAsTemplate(ctx)
	})
}

// ToVM converts the template to a VM, in the first cluster's pool.
func (o *Operator) ToVM(where string) error {
	return o.onVM("convert to a VM", where, func(ctx context.Context, vm *object.VirtualMachine) (*object.Task, error) {
		pool, err := o.Find(firstPool)
		if err != nil {
			return nil, err
		}
		return nil, vm.MarkAsVirtualMachine(ctx, *object.NewResourcePool(o.admin.Client, pool), nil)
	})
}
