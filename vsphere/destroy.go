package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
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
		kept := now.ForeignDisks()
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
func (v *VCenter) detach(ctx context.Context, ref plan.Ref, a plan.Action, now *FreshVM, kept []*types.VirtualDisk) error {
	spec := types.VirtualMachineConfigSpec{ChangeVersion: now.changeVersion}
	for _, disk := range kept {
		spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: disk})
		v.log.Warn().Str("group", ref.String()).Str("vm", a.VM).Str("disk", disks.File(disk)).Msg("a disk that the clone did not make is detached and kept")
	}
	return v.reconfigure(ctx, inventory.VMRef(a.MoRef), spec)
}
