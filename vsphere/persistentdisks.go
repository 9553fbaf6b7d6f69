// This file finds, creates, attaches, grows and deletes the persistent disks of a member.

package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
)

// persistentIn are the first-class disks among new ones.
func persistentIn(wanted []disks.Addition) (all []disks.Disk) {
	for _, w := range wanted {
		if w.Made.ID != "" {
			all = append(all, w.Made)
		}
	}
	return all
}

// obtainPersistent finds or creates the persistent disks among those that a member lacks, whose VM is in that datacenter and pool.
func (md memberDisks) obtainPersistent(ctx context.Context, in places.Datacenter, pool types.ManagedObjectReference, m *inventory.Member, now *FreshVM, wanted []disks.Addition) error {
	if !slices.ContainsFunc(wanted, func(w disks.Addition) bool { return w.Disk.Persistent }) {
		return nil
	}
	var all *places.Storage
	var reached *places.Reach
	err := md.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		if all, err = md.lookups.storageOf(ctx, s, in); err == nil {
			reached, err = md.lookups.reachOf(ctx, s, in, pool)
		}
		return err
	})
	if err != nil {
		return err
	}
	var home object.DatastorePath
	home.FromString(now.File)
	for i := range wanted {
		w := &wanted[i]
		if !w.Disk.Persistent {
			continue
		}
		if w.Datastore == "" {
			w.Datastore = home.Datastore
		}
		if w.Made, err = md.persistent.By(md).Obtain(ctx, md.searchFor(w, m, now, all, reached)); err != nil {
			return err
		}
	}
	return nil
}

// searchFor says which persistent disk is wanted, where it can be, and what is known of it.
func (md memberDisks) searchFor(w *disks.Addition, m *inventory.Member, now *FreshVM, all *places.Storage, reached *places.Reach) disks.Wanted {
	want := disks.Wanted{Owner: ownerOf(md.ref, m, w.Disk.Name), Cluster: md.cfg.ClusterID, Name: disks.NameOf(md.ref, m.Stamp.Ordinal, w.Disk.Name),
		CapacityMB: int64(w.Disk.SizeGiB) << 10, Provisioning: disks.Provisioning[w.Disk.Provisioning], Profile: w.Profile, VM: vmOf(m, now)}
	if of := md.action.Details().DisksOf; of != "" && of != want.Owner.UID {
		want.Former, want.FormerLives = want.Owner, md.inventory.HasMembers(apitypes.UID(of))
		want.Former.UID = of
	}
	if at := all.Called(w.Datastore); at != nil {
		want.Datastore = at.Ref.Value
	}
	for i := range all.All {
		t := &all.All[i]
		if t.Ref.Type != "Datastore" {
			continue
		}
		want.Datastores = append(want.Datastores, t.Ref.Value)
		if reached.Near(t) || t.Ref.Value == want.Datastore {
			want.Near = append(want.Near, t.Ref.Value)
		}
		if t.Ref.Value == want.Datastore || w.Compatible[t.Ref.Value] {
			want.Home = append(want.Home, t.Ref.Value)
		}
	}
	for _, known := range md.action.Details().KnownDisks {
		if known.Name == w.Disk.Name {
			want.Known = append(want.Known, disks.Ref{ID: known.ID, Datastore: known.Datastore})
		}
	}
	for _, d := range plan.Persistent(m.Stamp.Given) {
		if d.Name == w.Disk.Name && d.Parted == plan.PartedDeleted {
			want.Parted = append(want.Parted, disks.Ref{ID: d.ID, Datastore: d.Datastore})
		}
	}
	return want
}

// growPersistent lets a member's persistent disks grow, and returns the member as it is then: its VM has another changeVersion if one did.
func (md memberDisks) growPersistent(ctx context.Context, m *inventory.Member, now *FreshVM, given []plan.MemberDisk) (*inventory.Member, *FreshVM, error) {
	grew, err := md.persistent.By(md).GrowAll(ctx, given, md.action.Details().Spec, now.Devices)
	if err != nil || !grew {
		return m, now, err
	}
	return md.readAfterChange(ctx, now)
}

// trackBlocks turns changed block tracking on for a VM that is to have disks with it, and returns the member as it is then. Backup software
// turns it on for a VM and its disks, and vCenter does not attach such a disk to the next VM, which has it off (vsphere-csi-driver#1416).
func (md memberDisks) trackBlocks(ctx context.Context, m *inventory.Member, now *FreshVM, wanted []disks.Addition) (*inventory.Member, *FreshVM, error) {
	if now.Tracks || !slices.ContainsFunc(wanted, func(w disks.Addition) bool { return w.Made.Tracked }) {
		return m, now, nil
	}
	err := md.reconfigure(ctx, md.vm(), types.VirtualMachineConfigSpec{ChangeVersion: now.ChangeVersion, ChangeTrackingEnabled: types.NewBool(true)})
	if err != nil {
		return m, now, disks.TrackingRefused(md.action.VM, err)
	}
	return md.readAfterChange(ctx, now)
}

// deleteDisks deletes persistent disks of a member that goes: while its VM is there, its stamp tells which. It detaches them first.
func (md memberDisks) deleteDisks(ctx context.Context) error {
	if err := md.awaitPower(ctx, md.vm(), tasks.PoweringOn...); err != nil {
		return err
	}
	m, err := md.own()
	if err != nil {
		return err
	}
	now, err := md.readUnchanged(ctx, m)
	if err == nil {
		err = checkOff(now, md.action)
	}
	if err != nil {
		return err
	}
	parted, ids := m.Stamp, plan.ArgsOf[plan.DeleteDisksArgs](md.action.Args).IDs
	parted.Given = plan.PartDisks(parted.Given, plan.PartedDeleted, ids)
	vm := disks.VM{MoRef: md.action.MoRef, ChangeVersion: now.ChangeVersion}
	if text := parted.Encode(); text != m.Stamp.Encode() { // also if none is attached: a replica that destroys the VM must know
		vm.Options = []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: text}}
	}
	if err := md.persistent.By(md).Detach(ctx, vm, now.Devices, ids...); err != nil {
		return err
	}
	var gone []disks.Ref
	var kept []plan.MemberDisk
	for _, d := range plan.DisksIn(m.Stamp.Given) {
		if slices.Contains(ids, d.ID) {
			gone = append(gone, disks.Where(d, now.Devices))
		} else {
			kept = append(kept, d)
		}
	}
	for _, at := range gone {
		if err := md.persistent.By(md).Delete(ctx, func(o disks.Owner) bool { return o.UID == string(md.ref.UID) && o.Ordinal == int(md.action.Ordinal) }, at); err != nil {
			return err
		}
	}
	if err := md.reader.Read(ctx, md.vm()); err != nil {
		return err
	}
	if m, err = md.own(); err != nil {
		return err
	}
	return md.restamp(ctx, m, func(s *stamp.Stamp) { s.Given = plan.DiskText(kept) })
}

// hasDisks checks, right before a member is powered on, that it has all its persistent disks, and no other VM has one. From then on they
// may contain data.
func (md memberDisks) hasDisks(ctx context.Context, m *inventory.Member) error {
	all := plan.Persistent(m.Stamp.Given)
	if len(all) == 0 {
		return nil
	}
	now, err := md.ReadFresh(ctx, md.vm())
	if err == nil {
		err = checkFresh(now, md.ref, md.action) // another replica that has marked it since may be about to detach them
	}
	if err != nil {
		return err
	}
	var refs []disks.Ref
	for _, d := range all {
		if disks.Attached(now.Devices, d.ID) == nil {
			return disks.Missing(d.Name, md.action.VM)
		}
		refs = append(refs, disks.Where(d, now.Devices))
	}
	if err := md.persistent.By(md).Free(ctx, vmOf(m, now), refs...); err != nil {
		return err
	}
	return md.bindDisks(ctx, m, all, now.Devices)
}

// bindDisks records that disks of a member, which are attached to it, may contain data.
func (md memberDisks) bindDisks(ctx context.Context, m *inventory.Member, given []plan.MemberDisk, devices []types.BaseVirtualDevice) error {
	var all []disks.Owned
	for _, d := range given {
		if d.ID != "" {
			all = append(all, disks.Owned{Owner: ownerOf(md.ref, m, d.Name), Ref: disks.Where(d, devices)})
		}
	}
	return md.persistent.By(md).Bind(ctx, all...)
}

func ownerOf(ref plan.Ref, m *inventory.Member, disk string) disks.Owner {
	return disks.Owner{UID: string(ref.UID), Ordinal: int(m.Stamp.Ordinal), Disk: disk}
}

func vmOf(m *inventory.Member, now *FreshVM) disks.Holder {
	return disks.Holder{MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, On: now.Power == types.VirtualMachinePowerStatePoweredOn}
}

// memberDisks is a step about the disks of a member.
type memberDisks struct{ *step }

// readAfterChange returns a member as it is after a change of ours to its VM. Only its changeVersion may be another one, for the stamp of another
// replica counts.
func (md memberDisks) readAfterChange(ctx context.Context, before *FreshVM) (*inventory.Member, *FreshVM, error) {
	if err := md.reader.Read(ctx, md.vm()); err != nil {
		return nil, nil, err
	}
	m, err := md.own()
	if err != nil {
		return nil, nil, err
	}
	now, err := md.readUnchanged(ctx, m)
	if err == nil && now.Stamp != before.Stamp {
		err = errChanged()
	}
	return m, now, err
}
