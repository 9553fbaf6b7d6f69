package vsphere

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// adoption is a step that takes a VM into a group, or lets one go.
type adoption struct{ *step }

// release takes the stamp and the server's notes off a VM, which is unmanaged from then on. A VM that is gone is success.
func (d adoption) release(ctx context.Context) error {
	if d.inventory.IsGone(d.action.MoRef) {
		return nil
	}
	m, err := d.own()
	if err != nil {
		return err
	}
	if err := d.unchanged(m); err != nil {
		return err
	}
	spec := types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion,
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: ""}}}
	if err = d.disown(ctx, &spec); err == nil {
		err = d.reconfigure(ctx, d.vm(), spec)
	}
	if fault.Is(err, &types.NoPermission{}) && (spec.Annotation != "" || spec.ManagedBy != nil) {
		spec.Annotation, spec.ManagedBy = "", nil // a deletion does not fail because of the notes
		err = d.reconfigure(ctx, d.vm(), spec)
	}
	if err == nil {
		return d.reader.Read(ctx, d.vm())
	}
	if vcfault.MissingObject(err) == d.vm() {
		return d.reader.Read(ctx, d.vm())
	}
	return err
}

// adopt writes a stamp into a VM that has none, or that of a former incarnation of the group. It checks all that State checked
// again, in a read that begins now.
func (d adoption) adopt(ctx context.Context) error {
	d.inventory.WatchCandidate(d.ref, d.action.MoRef)
	if err := d.reader.Read(ctx, d.vm()); err != nil {
		return err
	}
	if m := d.inventory.Member(d.action.MoRef); m != nil && m.Stamp.UID == d.ref.UID {
		return nil // by an earlier try, or by another replica
	}
	m, err := d.inventory.AdoptableNow(d.ref, d.action.MoRef)
	if err != nil {
		return err
	}
	if m.ChangeVersion == "" || m.ChangeVersion != d.action.ChangeVersion {
		return changedMeanwhile()
	}
	as := plan.ArgsOf[plan.AdoptArgs](d.action.Args)
	stamp := stamp.Stamp{
		Cluster: d.cfg.ClusterID, Namespace: d.ref.Namespace, Name: d.ref.Name, UID: d.ref.UID,
		Generation: d.action.Generation, Ordinal: d.action.Ordinal, Revision: as.Revision, RevisionAlgorithm: plan.RevisionAlgorithm,
		InstanceUUID: m.InstanceUUID, VCenter: d.inventory.VCenter(), Created: stamp.Time(time.Now()), Fingerprint: as.Fingerprint,
		Former: plan.Former{Entry: as.Entry, Name: m.Name, Folder: m.Folder},
	}
	if d.action.Details() != nil { // as in a clone's stamp, so that adoption alone replaces nothing
		stamp.Home, stamp.Addresses = d.action.Details().Home, d.action.Details().AddressText
	}
	return d.writeStamp(ctx, d.action.MoRef, m.ChangeVersion, stamp.Encode())
}

// formerConflict says how to adopt a VM that a former group of the same namespace and name left behind, when the group was lost
// and applied again. The message is the same for all of its members.
func formerConflict(ref plan.Ref, cluster string, s *stamp.Stamp, path string) error {
	folder := path[:strings.LastIndexByte(path, '/')]
	held := "The name is taken in " + folder + " by a VM of "
	adopt := fmt.Sprintf("list its path in spec.adopt, and start the server with --adopt-from %s=%s", ref.Namespace, folder)
	const otherwise = "Otherwise rename, move or remove the VM."
	switch {
	case s.Cluster != cluster:
		return vcfault.New(vcfault.ReasonNameConflict, true, "%s%s in the cluster %q (UID %s): give each cluster a --folder of its own, or rename, move or remove the VM.",
			held, ref, s.Cluster, s.UID)
	case s.Cluster == "":
		return vcfault.New(vcfault.ReasonNameConflict, true, "%sa former %s, or of one in another cluster (UID %s). To adopt the VM, remove the key %s from its configuration, %s (and with --cluster-id, so that the key can stay the next time). %s",
			held, ref, s.UID, stamp.Key, adopt, otherwise)
	}
	return vcfault.New(vcfault.ReasonNameConflict, true, "%sa former %s (UID %s). To adopt the VM, %s. %s", held, ref, s.UID, adopt, otherwise)
}
