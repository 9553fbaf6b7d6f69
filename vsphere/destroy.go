package vsphere

import (
	"context"
	"path"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// destroy removes a member and the disks that its clone made. Its stamp is read once more before, and not from the
// inventory. Disks from elsewhere are detached first, and kept.
func (v *VCenter) destroy(ctx context.Context, ref plan.Ref, a plan.Action) error {
	vm := inventory.VMRef(a.MoRef)
	for {
		now, err := v.ReadFresh(ctx, vm)
		if vcfault.MissingObject(err) == vm {
			return v.reader.Read(ctx, vm)
		}
		if err != nil {
			return err
		}
		if err := now.check(ref, a); err != nil {
			return err
		}
		if a.NeverOn {
			if err := v.neverOn(ctx, a, now); err != nil {
				return err
			}
		}
		kept := ForeignDisks(now.Devices, now.File)
		if len(kept) == 0 {
			break
		}
		if err := v.detach(ctx, ref, a, now, kept); err != nil {
			return err
		}
	}
	_, err := v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.Destroy_Task(ctx, s.Vim, &types.Destroy_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil && vcfault.MissingObject(err) != vm {
		return err
	}
	if err == nil {
		v.inventory.Destroyed(a.MoRef)
	}
	v.asked.Delete(a.MoRef)
	return v.reader.Read(ctx, vm)
}

// detach takes disks off a VM and keeps their files: an operation without a file operation.
func (v *VCenter) detach(ctx context.Context, ref plan.Ref, a plan.Action, now *FreshVM, disks []*types.VirtualDisk) error {
	spec := types.VirtualMachineConfigSpec{ChangeVersion: now.changeVersion}
	for _, disk := range disks {
		spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: disk})
		v.log.Warn().Str("group", ref.String()).Str("vm", a.VM).Str("disk", DiskFile(disk)).Msg("a disk that the clone did not make is detached and kept")
	}
	return v.reconfigure(ctx, inventory.VMRef(a.MoRef), spec)
}

// ForeignDisks are the disks that the VM's clone did not make, as far as can be told: a clone's disks lie in the
// directory of its .vmx file. What lies elsewhere was attached later: another VM's disk, a Kubernetes volume (those
// are first-class disks, in a directory of their own, and have an id). Kept by mistake is what a clone left on other
// datastores, because its template's disks are on several and the settings name none: better a disk too many
// than one too few, and the log names it.
func ForeignDisks(devices []types.BaseVirtualDevice, vmx string) []*types.VirtualDisk {
	var own object.DatastorePath
	if !own.FromString(vmx) {
		return nil
	}
	var foreign []*types.VirtualDisk
	for _, device := range devices {
		disk, is := device.(*types.VirtualDisk)
		if !is {
			continue
		}
		var at object.DatastorePath
		if file := DiskFile(disk); file == "" || !at.FromString(file) {
			continue
		}
		if disk.VDiskId != nil || at.Datastore != own.Datastore || path.Dir(at.Path) != path.Dir(own.Path) {
			foreign = append(foreign, disk)
		}
	}
	return foreign
}

// DiskFile is the file that a disk is in; empty if it is in none.
func DiskFile(disk *types.VirtualDisk) string {
	if backing, is := disk.Backing.(types.BaseVirtualDeviceFileBackingInfo); is {
		return backing.GetVirtualDeviceFileBackingInfo().FileName
	}
	return ""
}
