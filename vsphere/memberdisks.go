// This file adds and grows a member's disks as the spec says, and checks that the member has the disks of its clone.

package vsphere

import (
	"context"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/removalcause"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// setDisks adds the disks of the spec that a member lacks, and grows others, whether the VM is on or off. One reconfigure, guarded by changeVersion,
// changes the disks and records them in the stamp. vCenter assigns the uuids of new disks, so the next step reads and records those, and
// publishes them to the guest.
func (md memberDisks) setDisks(ctx context.Context) error {
	m, err := md.own()
	if err != nil {
		return err
	}
	if err := md.unchanged(m); err != nil {
		return err
	}
	now, err := md.readUnchanged(ctx, m)
	if err != nil {
		return err
	}
	given, err := disks.Recognize(plan.DisksIn(m.Stamp.Given), now.Devices, md.action.Key)
	if err != nil {
		return err
	}
	if m, now, err = md.growPersistent(ctx, m, now, given); err != nil {
		return err
	}
	given, changes, missing, err := disks.Growing(given, md.action.Details().Spec, now.Devices, m.Stamp.Disks, md.action.Key)
	if err == nil && len(changes) > 0 && now.Snapshots {
		err = vcfault.ForOperator(vcfault.ReasonDiskHeldBySnapshot, "The disks of %s cannot grow while it has snapshots: remove them.", md.action.Key)
	}
	if err != nil {
		return err
	}
	var wanted []disks.Addition
	if len(missing) > 0 {
		if m, now, wanted, err = md.obtainMissing(ctx, m, now, missing); err != nil {
			return err
		}
	}
	devices, added, err := disks.Add(now.Devices, wanted, md.action.Key)
	if err != nil {
		return err
	}
	given, changes = append(given, added...), append(changes, devices...)
	stamp := m.Stamp
	stamp.Given, stamp.Disks, stamp.Generation = plan.DiskText(given), disks.Own(stamp.Disks, given, now.Devices), max(stamp.Generation, md.action.Generation)
	options, err := guestOptions(md.ref, md.action, m.InstanceUUID, now.Devices, given)
	if err != nil {
		return err
	}
	err = md.writeStampAnd(ctx, m.MoRef, now.ChangeVersion, stamp.Encode(), types.VirtualMachineConfigSpec{ExtraConfig: options, DeviceChange: changes})
	if attached := persistentIn(wanted); len(attached) > 0 {
		err = disks.AttachRefused(err, now.Hardware, attached...)
	}
	if err != nil {
		return disks.Refusal(md.action.Key, err)
	}
	return md.bindDisks(ctx, m, added, nil)
}

// obtainMissing finds the datastores of the disks that a member lacks, and finds or creates the persistent ones. It returns the member as last
// read.
func (md memberDisks) obtainMissing(ctx context.Context, m *inventory.Member, now *FreshVM, missing []v1alpha1.Disk) (*inventory.Member, *FreshVM, []disks.Addition, error) {
	b, err := md.newCloneBuilder(md.ref, md.action, m.Folder)
	if err == nil {
		err = b.fillPool(ctx)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	wanted, err := b.wantedDisks(ctx, missing)
	if err == nil {
		err = md.obtainPersistent(ctx, b.datacenter, *b.spec.Location.Pool, m, now, wanted)
	}
	if err == nil {
		m, now, err = md.trackBlocks(ctx, m, now, wanted)
	}
	return m, now, wanted, err
}

// identifyDisks checks, before a power-on, that a member has the disks of its clone. Where the directories of disks do not name their VM (vSAN,
// vVols), or the disks can be on several datastores, it adds the uuids of the disks to the stamp, which identify them wherever they are moved. It returns the member as last read. A
// preparation does both, too. The inventory shows whether a disk is missing or a uuid unrecorded, so other members need no call.
func (md memberDisks) identifyDisks(ctx context.Context, m *inventory.Member) (*inventory.Member, error) {
	scattered := disks.Scattered(m.Stamp.Disks)
	if disks.Identified(m.Stamp.Disks) || !scattered && m.NamedHome && int(m.NumDisks) >= disks.Count(m.Stamp.Disks) {
		return m, nil
	}
	now, err := md.readAgain(ctx)
	if err == nil {
		err = md.checkMemberDisks(ctx, m, now)
	}
	if err != nil || !scattered && disks.NamedHome(now.File) {
		return m, err
	}
	foreign := now.ForeignDisks() // an operator may have replaced a disk by another one
	own := slices.DeleteFunc(slices.Clone(now.Devices), func(device types.BaseVirtualDevice) bool {
		disk, is := device.(*types.VirtualDisk)
		return is && slices.Contains(foreign, disk)
	})
	identified := m.Stamp
	if identified.Disks = disks.Identify(m.Stamp.Disks, own, now.File); identified.Disks == m.Stamp.Disks {
		return m, nil
	}
	if now.Stamp != m.Stamp.Encode() {
		return m, errChanged()
	}
	if err = md.writeStamp(ctx, md.action.MoRef, now.ChangeVersion, identified.Encode()); err != nil {
		return m, err
	}
	return md.own()
}

// checkMemberDisks is checkCloneDisks for a member that may have run, from which an operator may have removed a disk. vCenter's events show whether
// it ran. If they do not even show its clone, an old member may have run, because vCenter drops old events; a member of less than an hour has
// not, because vCenter stores events with a delay.
func (md memberDisks) checkMemberDisks(ctx context.Context, m *inventory.Member, now *FreshVM) error {
	lacks := checkCloneDisks(m.Stamp.Disks, now.Devices, md.action.Key)
	if lacks == nil {
		return nil
	}
	if made, on, err := removalcause.Life(ctx, md, md.action.MoRef); err != nil || on || !made && time.Since(m.Stamp.Created) > time.Hour {
		return err
	}
	return lacks
}
