package vsphere

import (
	"cmp"
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// destroy removes a member and the disks that its clone made, after it has read the stamp again from vCenter. It first detaches
// disks from elsewhere, and keeps them.
func (v *VCenter) destroy(ctx context.Context, ref plan.Ref, a plan.Action) error {
	vm, id := inventory.VMRef(a.MoRef), plan.VMID{MoRef: a.MoRef}
	for awaited := false; ; awaited = true {
		now, err := v.ReadFresh(ctx, vm)
		if vcfault.MissingObject(err) == vm {
			return v.reader.Read(ctx, vm)
		}
		if err != nil {
			return err
		}
		if err := check(now, ref, a); err != nil {
			return err
		}
		id.InstanceUUID = now.InstanceUUID
		if a.NeverOn {
			if err := v.neverOn(ctx, a, now); err != nil {
				return err
			}
		}
		kept := now.ForeignDisks()
		if len(kept) == 0 {
			break
		}
		if !awaited { // a power-on under way: changeVersion, which guards the change, does not tell
			if err := v.awaitPower(ctx, vm, tasks.PoweringOn...); err != nil {
				return err
			}
			continue
		}
		if err := cmp.Or(partable(now, a), detachable(now, a, kept)); err != nil {
			return err
		}
		if err := v.detach(ctx, ref, a, now, kept); err != nil {
			return err
		}
	}
	var vcenter string
	_, err := v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		vcenter = s.UUID
		res, err := methods.Destroy_Task(ctx, s.Vim, &types.Destroy_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil && vcfault.MissingObject(err) != vm {
		return err
	}
	v.asked.Delete(a.MoRef)
	if err != nil {
		return v.reader.Read(ctx, vm)
	}
	v.inventory.Destroyed(id)
	return v.reader.Told(ctx, inventory.Reading{VCenter: vcenter, Gone: []string{a.MoRef}})
}

// partable reports whether disks may be detached from a VM that goes: its guest must not run without them.
func partable(x *FreshVM, a plan.Action) error {
	if x.Power == types.VirtualMachinePowerStatePoweredOff {
		return nil
	}
	return vcfault.New(vcfault.ReasonInvalidPowerState, false, "%s is %s, so its disks were not detached; it is read again.", a.VM, x.Power)
}

// detachable reports whether vCenter can detach disks and keep their files. It cannot if one is part of a snapshot: "Cannot
// remove virtual disk from the virtual machine because it or one of its parent disks is part of a snapshot of the virtual machine"
// (pyvmomi-community-samples#352, terraform-provider-vsphere#1651). Then the VM writes to a delta of it. The snapshots belong to an
// operator or to backup software, and the server must not remove them.
func detachable(x *FreshVM, a plan.Action, kept []*types.VirtualDisk) error {
	if !x.Snapshots {
		return nil
	}
	var held []string
	for _, disk := range kept {
		if disks.IsDelta(disk) {
			held = append(held, disks.Base(disk))
		}
	}
	if len(held) == 0 {
		return nil
	}
	slices.Sort(held)
	return vcfault.New(vcfault.ReasonDiskInSnapshot, true, "A disk from elsewhere (%s) is part of a snapshot, so vCenter does not detach it, and would delete it with the VM: remove the snapshots of %s.",
		vcfault.FirstFew(held), a.VM)
}

// detach removes disks from a VM and keeps their files: a device change without a file operation. The stamp says so in the same change:
// if the VM is not destroyed then, and stays, it needs its persistent disks again.
func (v *VCenter) detach(ctx context.Context, ref plan.Ref, a plan.Action, now *FreshVM, kept []*types.VirtualDisk) error {
	spec := types.VirtualMachineConfigSpec{ChangeVersion: now.ChangeVersion}
	has, _ := stamp.Read(now.Stamp, now.InstanceUUID, true)
	ordinals := plan.Persistent(has.Given)
	for _, disk := range kept {
		spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: disk})
		if ours := disk.VDiskId != nil && slices.ContainsFunc(ordinals, func(d plan.MemberDisk) bool { return d.ID == disk.VDiskId.Id }); ours {
			v.log.Info().Str("group", ref.String()).Str("vm", a.VM).Str("disk", disks.File(disk)).Msg("detaching and keeping a persistent disk")
			continue
		}
		v.log.Warn().Str("group", ref.String()).Str("vm", a.VM).Str("disk", disks.File(disk)).Msg("detaching and keeping a disk that the clone did not make")
	}
	if len(ordinals) > 0 {
		has.Given = plan.PartDisks(has.Given, plan.PartedKept, nil)
		spec.ExtraConfig = []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: has.Encode()}}
	}
	return v.reconfigure(ctx, inventory.VMRef(a.MoRef), spec)
}
