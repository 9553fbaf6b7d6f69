package vcsim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// folder wraps a folder for one call.
type folder struct {
	*simulator.Folder
	*call
	v *inventory
}

func (f *folder) work(kind Kind, do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)) types.ManagedObjectReference {
	return f.v.begin(f.call, work{kind: kind, entity: f.Folder, name: f.Name, do: do})
}

// CreateFolder also rejects the name of a VM in creation.
func (f *folder) CreateFolder(ctx *simulator.Context, req *types.CreateFolder) soap.HasFault {
	if fault := f.v.free(place{f.Self, escape(req.Name)}, nil); fault != nil {
		return &methods.CreateFolderBody{Fault_: simulator.Fault("", fault)}
	}
	return f.Folder.CreateFolder(ctx, req)
}

// CreateVMTask reserves the name when it starts, as a clone does, and gives each adapter a unique address.
func (f *folder) CreateVMTask(_ *simulator.Context, req *types.CreateVM_Task) soap.HasFault {
	for _, change := range req.Config.DeviceChange {
		if card, ok := change.GetVirtualDeviceConfigSpec().Device.(types.BaseVirtualEthernetCard); ok {
			f.v.setMAC(card.GetVirtualEthernetCard())
		}
	}
	ref := f.make(CreateVM, escape(req.Config.Name), func(ctx *simulator.Context) soap.HasFault {
		return f.Folder.CreateVMTask(ctx, req)
	})
	return &methods.CreateVM_TaskBody{Res: &types.CreateVM_TaskResponse{Returnval: ref}}
}

// RegisterVMTask reserves the name when it starts, as a clone does. An unregistered VM returns as its files describe it.
func (f *folder) RegisterVMTask(_ *simulator.Context, req *types.RegisterVM_Task) soap.HasFault {
	ref := f.makeBy(RegisterVM, escape(req.Name), func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		if d := f.v.removedAt(req.Path); d != nil {
			return f.v.registerRemoved(ctx, d, f.Folder, req)
		}
		return f.v.inner(ctx, f.Self, func() soap.HasFault { return f.Folder.RegisterVMTask(ctx, req) })
	})
	return &methods.RegisterVM_TaskBody{Res: &types.RegisterVM_TaskResponse{Returnval: ref}}
}

func (f *folder) make(kind Kind, name string, call func(*simulator.Context) soap.HasFault) types.ManagedObjectReference {
	return f.makeBy(kind, name, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		return f.v.inner(ctx, f.Self, func() soap.HasFault { return call(ctx) })
	})
}

func (f *folder) makeBy(kind Kind, name string, do func(*simulator.Context) (types.AnyType, types.BaseMethodFault)) types.ManagedObjectReference {
	target := place{f.Self, name}
	release, fault := f.v.reserve(target)
	return f.v.begin(f.call, work{
		kind: kind, entity: f.Folder, name: name, end: release,
		check: func(*simulator.Context) types.BaseMethodFault {
			if fault != nil {
				return fault
			}
			return f.v.taken(target, nil)
		},
		do: do,
	})
}

// RenameTask rejects a duplicate name: [doc] Rename_Task: DuplicateName.
func (f *folder) RenameTask(_ *simulator.Context, req *types.Rename_Task) soap.HasFault {
	ref := f.work(RenameFolder, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		name := escape(req.NewName)
		if f.Parent == nil || f.Parent.Type != "Folder" { // [doc] the folders of a datacenter cannot be renamed
			return nil, new(types.NotSupported)
		}
		if fault := f.v.free(place{*f.Parent, name}, &f.Self); fault != nil {
			return nil, fault
		}
		f.v.objects.AtomicUpdate(ctx, f.Folder, []types.PropertyChange{{Name: "name", Val: name}})
		return nil, nil
	})
	return &methods.Rename_TaskBody{Res: &types.Rename_TaskResponse{Returnval: ref}}
}

// MoveIntoFolderTask rejects moves that the simulator allows.
//
// [doc] MoveIntoFolder_Task: DuplicateName if another object with the same name is in the target; InvalidFolder if the target is inside a
// moved folder.
func (f *folder) MoveIntoFolderTask(_ *simulator.Context, req *types.MoveIntoFolder_Task) soap.HasFault {
	ref := f.work(MoveInto, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		for _, ref := range req.List {
			e, ok := f.v.objects.Get(ref).(mo.Entity)
			if !ok {
				return nil, &types.ManagedObjectNotFound{Obj: ref}
			}
			if fault := f.v.free(place{f.Self, e.Entity().Name}, &ref); fault != nil {
				return nil, fault
			}
			if f.v.world.Below(f.Self, ref) {
				return nil, &types.InvalidFolder{Target: f.Self}
			}
		}
		return f.v.inner(ctx, f.Self, func() soap.HasFault { return f.Folder.MoveIntoFolderTask(ctx, req) })
	})
	return &methods.MoveIntoFolder_TaskBody{Res: &types.MoveIntoFolder_TaskResponse{Returnval: ref}}
}

// DestroyTask destroys the contents, VMs and their disks included; the simulator keeps VMs.
//
// [doc] ManagedEntity.Destroy_Task: "Destroys this object, deleting its contents and removing it from its parent folder". The task fails at a
// VM that is powered on or has a question, and does not restore the objects that it has destroyed before.
func (f *folder) DestroyTask(_ *simulator.Context, _ *types.Destroy_Task) soap.HasFault {
	ref := f.work(DestroyFolder, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		return nil, f.v.removeFolder(ctx, f.Folder, func(vm *simulator.VirtualMachine) types.BaseMethodFault {
			_, fault := f.v.destroy(ctx, vm)
			return fault
		})
	})
	return &methods.Destroy_TaskBody{Res: &types.Destroy_TaskResponse{Returnval: ref}}
}

// UnregisterAndDestroyTask destroys folders but only unregisters VMs, whose disks it keeps.
//
// [doc] Folder.UnregisterAndDestroy_Task: "Recursively unregisters child virtual machines and vApps
// and destroys all child folders"; InvalidState if a VM is not powered off.
func (f *folder) UnregisterAndDestroyTask(_ *simulator.Context, _ *types.UnregisterAndDestroy_Task) soap.HasFault {
	ref := f.work(UnregisterAndDestroy, func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		return nil, f.v.removeFolder(ctx, f.Folder, func(vm *simulator.VirtualMachine) (fault types.BaseMethodFault) {
			if fault = mustBeOff(vm); fault != nil {
				return fault
			}
			f.v.removeVM(ctx, vm)
			return nil
		})
	})
	return &methods.UnregisterAndDestroy_TaskBody{Res: &types.UnregisterAndDestroy_TaskResponse{Returnval: ref}}
}

// removeFolder calls remove for the VMs inside, then removes the folders from the leaves up.
func (v *inventory) removeFolder(ctx *simulator.Context, f *simulator.Folder, remove func(*simulator.VirtualMachine) types.BaseMethodFault) types.BaseMethodFault {
	if f.Parent == nil || f.Parent.Type != "Folder" {
		return new(types.NotSupported) // it is the root folder, or a folder of a datacenter
	}
	parent := v.objects.Get(*f.Parent).(*simulator.Folder)
	for _, ref := range slices.Clone(f.ChildEntity) {
		var fault types.BaseMethodFault
		switch child := v.objects.Get(ref).(type) {
		case *simulator.VirtualMachine:
			if fault = v.mustHaveNoQuestion(ref); fault == nil {
				fault = remove(child)
			}
		case *simulator.Folder:
			fault = v.removeFolder(ctx, child, remove)
		default:
			fault = new(types.NotSupported)
		}
		if fault != nil {
			return fault
		}
	}
	v.objects.Remove(ctx, f.Self)
	v.objects.RemoveReference(ctx, parent, &parent.ChildEntity, f.Self)
	return nil
}

// place is a name in a folder. In vCenter, only one VM or folder can have the name, regardless of case (undocumented; see
// https://github.com/vmware/terraform-provider-vsphere/issues/567).
type place struct {
	folder types.ManagedObjectReference
	name   string
}

// key is equal for names that conflict.
func (p place) key() place { return place{p.folder, strings.ToLower(p.name)} }

// reserve reserves a name for a VM in creation, until release. If the name is reserved for another VM, the fault is DuplicateName with a
// reference that cannot be read, as in a real vCenter. (In a real vCenter, the other VM has this reference once it is created; here,
// the VM gets another reference.)
func (v *inventory) reserve(p place) (release func(), fault types.BaseMethodFault) {
	if holder, ok := v.reserved[p.key()]; ok {
		return nil, &types.DuplicateName{Name: p.name, Object: holder}
	}
	v.reserved[p.key()] = types.ManagedObjectReference{Type: "VirtualMachine", Value: fmt.Sprintf("vm-%d", 1_000_000+v.world.NextID())}
	return func() {
		delete(v.reserved, p.key())
	}, nil
}

// taken returns DuplicateName if a child of the folder other than but has the name. The caller holds the world lock.
func (v *inventory) taken(p place, but *types.ManagedObjectReference) types.BaseMethodFault {
	f, ok := v.objects.Get(p.folder).(*simulator.Folder)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: p.folder}
	}
	for _, ref := range f.ChildEntity {
		child, ok := v.objects.Get(ref).(mo.Entity)
		if ok && strings.EqualFold(child.Entity().Name, p.name) && (but == nil || ref != *but) {
			return &types.DuplicateName{Name: p.name, Object: ref}
		}
	}
	return nil
}

// free returns DuplicateName if a child other than but, or a VM in creation, has the name.
func (v *inventory) free(p place, but *types.ManagedObjectReference) types.BaseMethodFault {
	holder, ok := v.reserved[p.key()]
	if ok {
		return &types.DuplicateName{Name: p.name, Object: holder}
	}
	return v.taken(p, but)
}
