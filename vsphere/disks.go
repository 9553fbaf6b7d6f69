package vsphere

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/removalcause"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// memberDisks is a step about the disks of a member.
type memberDisks struct{ *step }

// findLackingDisks looks for the datastores and policies of the disks that a member lacks.
func (b *cloneBuilder) findLackingDisks(ctx context.Context) error {
	m, err := b.ownOf(b.ref, b.action)
	if err != nil {
		return err
	}
	given := plan.DisksIn(m.Stamp.Given)
	lacking := slices.DeleteFunc(slices.Clone(b.details.Spec.Disks), func(d v1alpha1.Disk) bool {
		return slices.ContainsFunc(given, func(has plan.MemberDisk) bool { return has.Name == d.Name })
	})
	if len(lacking) == 0 {
		return nil
	}
	if err := b.fillPool(ctx); err != nil {
		return err
	}
	_, err = b.wantedDisks(ctx, lacking)
	return err
}

// wantedDisks finds where new disks go. b has where their VM is.
func (b *cloneBuilder) wantedDisks(ctx context.Context, all []v1alpha1.Disk) (wanted []disks.Addition, err error) {
	for i := range all {
		w := disks.Addition{Disk: &all[i]}
		if cmp.Or(w.Disk.Datastore, w.Disk.StoragePolicy, b.details.Spec.Placement.StoragePolicy) != "" {
			err = b.Call(ctx, func(ctx context.Context, s *session.Session) error { return b.placeDisk(ctx, s, &w) })
		}
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, w)
	}
	return wanted, nil
}

// placeDisk finds a disk's policy and datastore. Without a datastore it is on the VM's own, or, if the disk's own policy does not allow
// that, on the best one that it allows.
func (b *cloneBuilder) placeDisk(ctx context.Context, s *session.Session, w *disks.Addition) error {
	all, err := b.storageOf(ctx, s, b.datacenter)
	if err != nil {
		return err
	}
	var named *places.Object
	if w.Disk.Datastore != "" {
		among := places.Candidates(all.All, "Datastore")
		i, err := places.DiskField.Choose(w.Disk.Datastore, among)
		if err != nil {
			return err
		}
		named = all.Of(among[i].Ref)
	}
	p := &policy{}
	if name := cmp.Or(w.Disk.StoragePolicy, b.details.Spec.Placement.StoragePolicy); name != "" {
		if p, err = b.policyOf(ctx, s, b.datacenter, name, "the storagePolicy of spec.disks"); err != nil {
			return err
		}
		if w.Profile = profileOf(p.id); named == nil {
			w.Compatible = p.compatible
		}
		if p.encrypts {
			w.Encrypts = p.id
		}
	}
	switch own := b.spec.Location.Datastore; {
	case named == nil && (w.Disk.StoragePolicy == "" || own != nil && p.compatible[own.Value]):
		return nil
	case named == nil:
		reached, err := b.reachOf(ctx, s, b.datacenter, *b.spec.Location.Pool)
		if err != nil {
			return err
		}
		if fits := p.fitting(all, reached); len(fits) > 0 {
			named = slices.MinFunc(fits, places.Best)
		}
	case w.Disk.StoragePolicy != "" && !p.compatible[named.Ref.Value]:
		named = nil
	}
	if named == nil {
		return vcfault.New(vcfault.ReasonStoragePolicyIncompatible, true, "No datastore that the disk %s could be on satisfies the storage policy %q: set another datastore or storagePolicy in spec.disks.", w.Disk.Name, w.Disk.StoragePolicy)
	}
	w.Datastore = named.Name()
	return nil
}

// setDisks adds the disks of the spec that a member lacks, and lets others grow, while it runs or not. It is one reconfigure, guarded
// by changeVersion, with the stamp that records it; vCenter gives new disks their uuids, so the next step reads and records those, and
// tells the guest.
func (md memberDisks) setDisks(ctx context.Context) error {
	m, err := md.own()
	if err != nil {
		return err
	}
	if err := md.unchanged(m); err != nil {
		return err
	}
	now, err := md.lookUnchanged(ctx, m)
	if err != nil {
		return err
	}
	given, err := disks.Recognize(plan.DisksIn(m.Stamp.Given), now.Devices, md.action.VM)
	if err != nil {
		return err
	}
	if m, now, err = md.growPersistent(ctx, m, now, given); err != nil {
		return err
	}
	given, changes, missing, err := disks.Growing(given, md.action.Details().Spec, now.Devices, m.Stamp.Disks, md.action.VM)
	if err == nil && len(changes) > 0 && now.Snapshots {
		err = vcfault.New(vcfault.ReasonDiskHeldBySnapshot, true, "The disks of %s cannot grow while it has snapshots: remove them.", md.action.VM)
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
	devices, added, err := disks.Add(now.Devices, wanted, md.action.VM)
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
		return disks.Refusal(md.action.VM, err)
	}
	return md.bindDisks(ctx, m, added, nil)
}

// obtainMissing finds where the disks go that a member lacks, and finds or creates the persistent ones. It returns the member as it is then.
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

// persistentIn are the first-class disks among new ones.
func persistentIn(wanted []disks.Addition) (all []disks.Disk) {
	for _, w := range wanted {
		if w.Made.ID != "" {
			all = append(all, w.Made)
		}
	}
	return all
}

// identifyDisks checks that a member that is to be powered on has the disks of its clone, and, where the directories of disks do not name
// their VM (vSAN, vVols), adds their uuids to its stamp, by which they are known wherever they are moved. It returns the member as it is then.
// A member that is prepared has both from then. Of any other the inventory tells what is needed: a call is made only where something is missing
// or to be written.
func (md memberDisks) identifyDisks(ctx context.Context, m *inventory.Member) (*inventory.Member, error) {
	if disks.Identified(m.Stamp.Disks) || m.NamedHome && int(m.NumDisks) >= disks.Count(m.Stamp.Disks) {
		return m, nil
	}
	now, err := md.lookAgain(ctx)
	if err == nil {
		err = md.completeOrUsed(ctx, m, now)
	}
	if err != nil || disks.NamedHome(now.File) {
		return m, err
	}
	foreign := now.ForeignDisks() // somebody may have attached one in another's place meanwhile
	own := slices.DeleteFunc(slices.Clone(now.Devices), func(device types.BaseVirtualDevice) bool {
		disk, is := device.(*types.VirtualDisk)
		return is && slices.Contains(foreign, disk)
	})
	identified := m.Stamp
	if identified.Disks = disks.Identify(m.Stamp.Disks, own); identified.Disks == m.Stamp.Disks {
		return m, nil
	}
	if now.Stamp != m.Stamp.Encode() {
		return m, changedMeanwhile()
	}
	if err = md.writeStamp(ctx, md.action.MoRef, now.ChangeVersion, identified.Encode()); err != nil {
		return m, err
	}
	return md.own()
}

// completeOrUsed is complete for a member that may have run: somebody may have removed one of its disks since. vCenter's events tell, if the
// member isn't so old that it has dropped them, or so new that it may not have stored them yet.
func (md memberDisks) completeOrUsed(ctx context.Context, m *inventory.Member, now *FreshVM) error {
	lacks := complete(m.Stamp.Disks, now.Devices, md.action.VM)
	if lacks == nil {
		return nil
	}
	if made, on, err := removalcause.Life(ctx, md, md.action.MoRef); err != nil || on || !made && time.Since(m.Stamp.Created) > time.Hour {
		return err
	}
	return lacks
}

// complete returns an error if a clone's VM, which never ran, has not all disks that its stamp records: vCenter can end a clone without an
// error and without its disks.
func complete(record string, devices []types.BaseVirtualDevice, vm string) error {
	lacking := disks.Lacking(record, devices)
	if len(lacking) == 0 {
		return nil
	}
	return vcfault.New(vcfault.ReasonDiskMissing, true, "%s was cloned without disks of its template (%s): look at the clone's task in vCenter and at the datastore, and name the member in spec.replace.",
		vm, plan.AtMost(strings.Fields(strings.Trim(fmt.Sprint(lacking), "[]")), 10))
}

// obtainPersistent finds or creates the persistent disks among those that a member lacks, whose VM is in that datacenter and pool.
func (md memberDisks) obtainPersistent(ctx context.Context, in places.Datacenter, pool types.ManagedObjectReference, m *inventory.Member, now *FreshVM, wanted []disks.Addition) error {
	if !slices.ContainsFunc(wanted, func(w disks.Addition) bool { return w.Disk.Persistent }) {
		return nil
	}
	var all *places.Storage
	var reached *places.Reach
	err := md.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		if all, err = md.storageOf(ctx, s, in); err == nil {
			reached, err = md.reachOf(ctx, s, in, pool)
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

// growPersistent lets a member's persistent disks grow, and returns the member as it is then: its VM has another changeVersion if one did.
func (md memberDisks) growPersistent(ctx context.Context, m *inventory.Member, now *FreshVM, given []plan.MemberDisk) (*inventory.Member, *FreshVM, error) {
	grew, err := md.persistent.By(md).GrowAll(ctx, given, md.action.Details().Spec, now.Devices)
	if err != nil || !grew {
		return m, now, err
	}
	return md.reread(ctx, now)
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
	return md.reread(ctx, now)
}

// reread returns a member as it is after a change of ours to its VM. Only its changeVersion may be another one, for the stamp of another
// replica counts.
func (md memberDisks) reread(ctx context.Context, before *FreshVM) (*inventory.Member, *FreshVM, error) {
	if err := md.reader.Read(ctx, md.vm()); err != nil {
		return nil, nil, err
	}
	m, err := md.own()
	if err != nil {
		return nil, nil, err
	}
	now, err := md.lookUnchanged(ctx, m)
	if err == nil && now.Stamp != before.Stamp {
		err = changedMeanwhile()
	}
	return m, now, err
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
	now, err := md.lookUnchanged(ctx, m)
	if err == nil {
		err = partable(now, md.action)
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
		err = check(now, md.ref, md.action) // another replica that has marked it since may be about to detach them
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
