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

// persistentIn returns the first-class disks among new disks.
func persistentIn(wanted []disks.Addition) (all []disks.Disk) {
	for _, w := range wanted {
		if w.Made.ID != "" {
			all = append(all, w.Made)
		}
	}
	return all
}

// obtainPersistent finds or creates the persistent disks among those that a member lacks. in and pool are the datacenter and the resource pool of
// the VM.
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

// searchFor describes the persistent disk to find or create: its owner, the datastores where it can be, and its known ids.
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
			want.Suitable = append(want.Suitable, t.Ref.Value)
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

// growPersistent grows a member's persistent disks as the spec says. It returns the member as last read, because growth changes the changeVersion.
func (md memberDisks) growPersistent(ctx context.Context, m *inventory.Member, now *FreshVM, given []plan.MemberDisk) (*inventory.Member, *FreshVM, error) {
	grew, err := md.persistent.By(md).GrowAll(ctx, given, md.action.Details().Spec, now.Devices)
	if err != nil || !grew {
		return m, now, err
	}
	return md.readAfterChange(ctx, now)
}

// trackBlocks turns on changed block tracking for a VM that is to get a disk with it, and returns the member as last read. Backup software turns
// it on for a VM and its disks, and vCenter does not attach such a disk to another VM that has it off (vsphere-csi-driver#1416).
func (md memberDisks) trackBlocks(ctx context.Context, m *inventory.Member, now *FreshVM, wanted []disks.Addition) (*inventory.Member, *FreshVM, error) {
	if now.Tracks || !slices.ContainsFunc(wanted, func(w disks.Addition) bool { return w.Made.Tracked }) {
		return m, now, nil
	}
	err := md.reconfigure(ctx, md.vm(), types.VirtualMachineConfigSpec{ChangeVersion: now.ChangeVersion, ChangeTrackingEnabled: types.NewBool(true)})
	if err != nil {
		return m, now, disks.TrackingRefused(md.action.Key, err)
	}
	return md.readAfterChange(ctx, now)
}

// deleteDisks detaches and deletes persistent disks of a member that is being removed. It runs before the VM is destroyed, because the stamp
// records the disks.
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
	if text := parted.Encode(); text != m.Stamp.Encode() { // even if none is attached, because a replica that destroys the VM reads it
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

// hasDisks checks, right before a power-on, that a member has all its persistent disks and that no other VM has one of them. It records that they
// may contain data from now on.
func (md memberDisks) hasDisks(ctx context.Context, m *inventory.Member) error {
	all := plan.Persistent(m.Stamp.Given)
	if len(all) == 0 {
		return nil
	}
	now, err := md.ReadFresh(ctx, md.vm())
	if err == nil {
		err = checkFresh(now, md.ref, md.action) // a replica that has marked the member since may be about to detach them
	}
	if err != nil {
		return err
	}
	var refs []disks.Ref
	for _, d := range all {
		if disks.Attached(now.Devices, d.ID) == nil {
			return disks.Missing(d.Name, md.action.Key)
		}
		refs = append(refs, disks.Where(d, now.Devices))
	}
	if err := md.persistent.By(md).Free(ctx, vmOf(m, now), refs...); err != nil {
		return err
	}
	return md.bindDisks(ctx, m, all, now.Devices)
}

// bindDisks records that disks that are attached to a member may contain data.
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
	return disks.Holder{MoRef: m.MoRef, InstanceUUID: m.Own, On: now.Power == types.VirtualMachinePowerStatePoweredOn}
}

// memberDisks is a step that changes or checks the disks of a member.
type memberDisks struct{ *step }

// readAfterChange reads a member after this step changed its VM. It fails if the stamp differs from before, because then another replica has
// written the stamp.
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
