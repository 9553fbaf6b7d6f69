// This file destroys a member's VM, and detaches the disks that must outlive it.

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
	"codeconnect.vmworld.com/vmgroup/vsphere/removalcause"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// detachTries bounds the detachments of disks that must be kept: an operator may attach another one between two reads.
const detachTries = 3

// destroy destroys a member's VM with the disks that its clone made, after a fresh read of the stamp. It first detaches all other disks, which are
// kept.
func (r removal) destroy(ctx context.Context) error {
	vm, id := r.vm(), plan.VMID{MoRef: r.action.MoRef}
	if err := r.leavesEnough(ctx); err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		now, err := r.ReadFresh(ctx, vm)
		if vcfault.MissingObject(err) == vm {
			return r.reader.Read(ctx, vm)
		}
		if err != nil {
			return err
		}
		if err := checkFresh(now, r.ref, r.action); err != nil {
			return err
		}
		has, _ := stamp.Read(now.Stamp, now.InstanceUUID, true)
		id.InstanceUUID = has.InstanceUUID
		if plan.ArgsOf[plan.DestroyArgs](r.action.Args).NeverOn {
			if err := r.neverOn(ctx, now); err != nil {
				return err
			}
		}
		kept := now.ForeignDisks()
		if len(kept) == 0 {
			break
		}
		if tries > detachTries {
			return vcfault.ForOperator(vcfault.ReasonRefused, "vCenter says that it detached the disks of %s that must be kept, and still shows %s: detach them in vCenter.", r.action.Key, disks.File(kept[0]))
		}
		if tries == 0 { // a power-on may be running, which does not change the changeVersion that guards the detachment
			if err := r.awaitPower(ctx, vm, tasks.PoweringOn...); err != nil {
				return err
			}
			continue
		}
		if err := cmp.Or(checkOff(now, r.action), checkSnapshots(now, r.action, kept)); err != nil {
			return err
		}
		if err := r.detach(ctx, now, kept); err != nil {
			return err
		}
	}
	var vcenter string
	_, err := r.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
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
	r.asked.Delete(r.action.MoRef)
	r.marks.Delete(r.action.MoRef)
	if err != nil {
		return r.reader.Read(ctx, vm)
	}
	r.inventory.MissingVMs.Destroyed(id)
	r.clones.HasRemoved(r.ref.UID)
	return r.reader.Report(ctx, inventory.Reading{VCenter: vcenter, Gone: []string{r.action.MoRef}})
}

// neverOn returns a fault, so that the VM is kept, unless the VM is off and vCenter's events show that it was never on.
func (r removal) neverOn(ctx context.Context, now *FreshVM) error {
	undecided := vcfault.ForRetry(plan.ReasonDuplicateMember, "Another VM is %s, and this one may have been in use, so it is kept.", r.action.Key)
	if now.Power != types.VirtualMachinePowerStatePoweredOff {
		return undecided
	}
	made, on, err := removalcause.Life(ctx, r, r.action.MoRef)
	if err == nil && (!made || on) {
		return undecided
	}
	return err
}

// checkOff returns a fault unless the VM is off, because its guest must not run without the disks that are to be detached.
func checkOff(x *FreshVM, a plan.Action) error {
	if x.Power == types.VirtualMachinePowerStatePoweredOff {
		return nil
	}
	return vcfault.ForRetry(vcfault.ReasonInvalidPowerState, "%s is %s, so its disks were not detached; it is read again.", a.Key, x.Power)
}

// checkSnapshots returns a fault if one of the disks is part of a snapshot. vCenter cannot detach such a disk: "Cannot remove virtual disk from the
// virtual machine because it or one of its parent disks is part of a snapshot of the virtual machine" (pyvmomi-community-samples#352,
// terraform-provider-vsphere#1651). The VM then writes to a delta of the disk. Snapshots belong to an operator or to backup software, so the
// server must not remove them.
func checkSnapshots(x *FreshVM, a plan.Action, kept []*types.VirtualDisk) error {
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
	return vcfault.ForOperator(vcfault.ReasonDiskInSnapshot, "A disk from elsewhere (%s) is part of a snapshot, so vCenter does not detach it, and would delete it with the VM: remove the snapshots of %s.",
		vcfault.FirstFew(held), a.Key)
}

// detach removes disks from a VM and keeps their files, by a device change without a file operation. The same change records in the stamp which
// persistent disks were detached: if the VM is not destroyed after all, it needs them again.
func (r removal) detach(ctx context.Context, now *FreshVM, kept []*types.VirtualDisk) error {
	spec := types.VirtualMachineConfigSpec{ChangeVersion: now.ChangeVersion}
	has, _ := stamp.Read(now.Stamp, now.InstanceUUID, true)
	ordinals := plan.Persistent(has.Given)
	for _, disk := range kept {
		spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: disk})
		if ours := disk.VDiskId != nil && slices.ContainsFunc(ordinals, func(d plan.MemberDisk) bool { return d.ID == disk.VDiskId.Id }); ours {
			r.log.Info().Str("group", r.ref.String()).Str("vm", r.action.Key).Str("disk", disks.File(disk)).Msg("detaching and keeping a persistent disk")
			continue
		}
		r.log.Warn().Str("group", r.ref.String()).Str("vm", r.action.Key).Str("disk", disks.File(disk)).Msg("detaching and keeping a disk that the clone did not make")
	}
	if len(ordinals) > 0 {
		has.Given = plan.PartDisks(has.Given, plan.PartedKept, nil)
		spec.ExtraConfig = []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: has.Encode()}}
	}
	return r.reconfigure(ctx, r.vm(), spec)
}
