package vsphere

import (
	"context"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// adoption is a step that adopts a VM into a group, or releases one.
type adoption struct{ *step }

// adopt writes a stamp into a VM that has none, or that has the stamp of a former group of the same name. It reads the VM, and repeats all checks of
// State. The stamp records the disks that the VM has now.
func (d adoption) adopt(ctx context.Context) error {
	d.inventory.WatchCandidate(d.ref, d.action.MoRef)
	if err := d.reader.Read(ctx, d.vm()); err != nil {
		return err
	}
	if m := d.inventory.Member(d.action.MoRef); m != nil && m.Stamp.UID == d.ref.UID && !d.inventory.Evidence.IsStray(m) {
		return nil // an earlier try or another replica adopted the VM
	}
	m, err := d.inventory.AdoptableNow(d.ref, d.action.MoRef)
	if err != nil {
		return err
	}
	if m.ChangeVersion == "" || m.ChangeVersion != d.action.ChangeVersion {
		return errChanged()
	}
	now, err := d.ReadFresh(ctx, d.vm())
	if err != nil {
		return err
	}
	if now.ChangeVersion != m.ChangeVersion {
		return errChanged()
	}
	has, _ := stamp.Read(now.Stamp, now.InstanceUUID, true)
	as := plan.ArgsOf[plan.AdoptArgs](d.action.Args)
	stamp := stamp.Stamp{
		Cluster: d.cfg.ClusterID, Namespace: d.ref.Namespace, Name: d.ref.Name, UID: d.ref.UID,
		Generation: d.action.Generation, Ordinal: d.action.Ordinal, Revision: as.Revision, RevisionAlgorithm: plan.RevisionAlgorithm,
		InstanceUUID: now.InstanceUUID, VCenter: d.inventory.VCenter(), Created: stamp.Time(time.Now()), Fingerprint: as.Fingerprint,
		Former: plan.Former{Entry: as.Entry, Name: m.Name, Folder: m.Folder},
		Disks:  disks.Adopted(now.Devices, now.File, has.Disks),
	}
	if d.action.Details() != nil { // as in a clone's stamp, so that the adoption itself is no reason to replace the VM
		stamp.Home, stamp.Addresses = d.action.Details().Home, d.action.Details().AddressText
	}
	d.inventory.Evidence.Made(d.ref.UID, plan.VMID{MoRef: d.action.MoRef, InstanceUUID: now.InstanceUUID}) // before: vCenter's reply may be lost
	return d.writeStamp(ctx, d.action.MoRef, m.ChangeVersion, stamp.Encode())
}
