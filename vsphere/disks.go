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

// fillNewDisks adds spec.disks to the clone, and lets the template's first disk grow (spec.rootDisk). Both are in the clone's own
// spec, as the stamp is that names them: a member never exists with half of its disks. Persistent disks have to have a place, too.
func (v *VCenter) fillNewDisks(ctx context.Context, b *cloneBuilder) error {
	spec, c := b.details.Spec, b.spec.Config
	b.given = nil
	if spec.RootDisk != nil {
		root := disks.First("", b.source.devices)
		if root == nil {
			return vcfault.New(vcfault.ReasonTemplateUnfit, true, "The template %q has no disk that could grow: remove spec.rootDisk.", spec.Template)
		}
		if err := disks.Smaller(root, spec.RootDisk.SizeGiB, spec.Template); err != nil {
			return err
		}
		if change := disks.Grow(root, spec.RootDisk.SizeGiB); change != nil {
			c.DeviceChange = append(c.DeviceChange, change)
		}
		b.given = append(b.given, plan.MemberDisk{SizeGiB: spec.RootDisk.SizeGiB})
	}
	if len(spec.Disks) == 0 {
		return nil
	}
	wanted, err := v.wantedDisks(ctx, b, spec.Disks)
	if err != nil {
		return err
	}
	changes, records, err := disks.Add(b.source.devices, wanted, "The template "+spec.Template)
	if err != nil {
		return err
	}
	for i, w := range wanted {
		if !w.Disk.Persistent { // the others are attached later, to the units that are left free here
			b.given, c.DeviceChange = append(b.given, records[i]), append(c.DeviceChange, changes[i])
		}
	}
	enable := disks.EnableUUID
	c.ExtraConfig = append(c.ExtraConfig, &enable)
	return nil
}

// findLackingDisks looks for the datastores and policies of the disks that a member lacks.
func (v *VCenter) findLackingDisks(ctx context.Context, ref plan.Ref, b *cloneBuilder) error {
	m, err := v.own(ref, b.action)
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
	if err := v.fillPool(ctx, b); err != nil {
		return err
	}
	_, err = v.wantedDisks(ctx, b, lacking)
	return err
}

// wantedDisks finds where new disks go. b has where their VM is.
func (v *VCenter) wantedDisks(ctx context.Context, b *cloneBuilder, all []v1alpha1.Disk) (wanted []disks.Addition, err error) {
	for i := range all {
		w := disks.Addition{Disk: &all[i]}
		if cmp.Or(w.Disk.Datastore, w.Disk.StoragePolicy, b.details.Spec.Placement.StoragePolicy) != "" {
			err = v.Call(ctx, func(ctx context.Context, s *session.Session) error { return v.placeDisk(ctx, s, b, &w) })
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
func (v *VCenter) placeDisk(ctx context.Context, s *session.Session, b *cloneBuilder, w *disks.Addition) error {
	all, err := v.storageOf(ctx, s, b.datacenter)
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
		if p, err = v.policyOf(ctx, s, b.datacenter, name, "the storagePolicy of spec.disks"); err != nil {
			return err
		}
		if w.Profile = p.profile; named == nil {
			w.Compatible = p.compatible
		}
	}
	switch own := b.spec.Location.Datastore; {
	case named == nil && (w.Disk.StoragePolicy == "" || own != nil && p.compatible[own.Value]):
		return nil
	case named == nil:
		if named, err = v.bestFor(ctx, s, b, p, all); err != nil {
			return err
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

// bestFor returns the best datastore that a policy allows and the hosts of the VM have; nil if there is none.
func (v *VCenter) bestFor(ctx context.Context, s *session.Session, b *cloneBuilder, p *policy, all *places.Storage) (*places.Object, error) {
	reached, err := v.reachOf(ctx, s, b.datacenter, *b.spec.Location.Pool)
	var fits []*places.Object
	for i := range all.All {
		if t := &all.All[i]; p.compatible[t.Ref.Value] && places.Usable(t) && (reached == nil || slices.Contains(reached.Datastores, t.Ref)) {
			fits = append(fits, t)
		}
	}
	if err != nil || len(fits) == 0 {
		return nil, err
	}
	return slices.MinFunc(fits, places.Best), nil
}

// setDisks adds the disks of the spec that a member lacks, and lets others grow, while it runs or not. It is one reconfigure, guarded
// by changeVersion, with the stamp that records it; vCenter gives new disks their uuids, so the next step reads and records those, and
// tells the guest.
func (v *VCenter) setDisks(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	now, err := v.lookUnchanged(ctx, ref, a, m)
	if err != nil {
		return err
	}
	given, err := disks.Recognize(plan.DisksIn(m.Stamp.Given), now.Devices, a.VM)
	if err != nil {
		return err
	}
	if m, now, err = v.growPersistent(ctx, ref, a, m, now, given); err != nil {
		return err
	}
	given, changes, missing, err := disks.Growing(given, a.Details().Spec, now.Devices, m.Stamp.Disks, a.VM)
	if err == nil && len(changes) > 0 && now.Snapshots {
		err = vcfault.New(vcfault.ReasonDiskHeldBySnapshot, true, "The disks of %s cannot grow while it has snapshots: remove them.", a.VM)
	}
	if err != nil {
		return err
	}
	var added []plan.MemberDisk
	var attached []disks.Disk
	if len(missing) > 0 {
		b, err := v.newCloneBuilder(ref, a, m.Folder)
		if err != nil {
			return err
		}
		if err = v.fillPool(ctx, b); err != nil {
			return err
		}
		wanted, err := v.wantedDisks(ctx, b, missing)
		if err == nil {
			err = v.obtainDisks(ctx, ref, b, m, now, wanted)
		}
		if err == nil {
			m, now, err = v.trackBlocks(ctx, ref, a, m, now, wanted)
		}
		if err != nil {
			return err
		}
		var devices []types.BaseVirtualDeviceConfigSpec
		if devices, added, err = disks.Add(now.Devices, wanted, a.VM); err != nil {
			return err
		}
		given, changes = append(given, added...), append(changes, devices...)
		for _, w := range wanted {
			if w.Made.ID != "" {
				attached = append(attached, w.Made)
			}
		}
	}
	stamp := m.Stamp
	stamp.Given, stamp.Disks, stamp.Generation = plan.DiskText(given), disks.Own(stamp.Disks, given, now.Devices), max(stamp.Generation, a.Generation)
	options, err := guestOptions(ref, a, m.InstanceUUID, now.Devices, given)
	if err != nil {
		return err
	}
	err = v.writeStampAnd(ctx, m.MoRef, now.ChangeVersion, stamp.Encode(), options, changes...)
	if len(attached) > 0 {
		err = disks.AttachRefused(err, now.Hardware, attached...)
	}
	if err != nil {
		return disks.Refusal(a.VM, err)
	}
	return v.bindDisks(ctx, ref, m, added, nil)
}

// identifyDisks checks that a member that is to be powered on has the disks of its clone, and, where the directories of disks do not name
// their VM (vSAN, vVols), adds their uuids to its stamp, by which they are known wherever they are moved. It returns the member as it is then.
// A member that is prepared has both from then. Of any other the inventory tells what is needed: a call is made only where something is missing
// or to be written.
func (v *VCenter) identifyDisks(ctx context.Context, ref plan.Ref, m *inventory.Member, a plan.Action) (*inventory.Member, error) {
	if disks.Identified(m.Stamp.Disks) || m.NamedHome && int(m.NumDisks) >= disks.Count(m.Stamp.Disks) {
		return m, nil
	}
	now, err := v.lookAgain(ctx, ref, a)
	if err == nil {
		err = v.completeOrUsed(ctx, m, a, now)
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
	if err = v.writeStamp(ctx, a.MoRef, now.ChangeVersion, identified.Encode()); err != nil {
		return m, err
	}
	return v.own(ref, a)
}

// completeOrUsed is complete for a member that may have run: somebody may have removed one of its disks since. vCenter's events tell, if the
// member isn't so old that it has dropped them, or so new that it may not have stored them yet.
func (v *VCenter) completeOrUsed(ctx context.Context, m *inventory.Member, a plan.Action, now *FreshVM) error {
	lacks := complete(m.Stamp.Disks, now.Devices, a.VM)
	if lacks == nil {
		return nil
	}
	if made, on, err := removalcause.Life(ctx, v, a.MoRef); err != nil || on || !made && time.Since(m.Stamp.Created) > time.Hour {
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
		vm, strings.Join(strings.Fields(strings.Trim(fmt.Sprint(lacking), "[]")), ", "))
}

// obtainDisks finds or makes the persistent disks among those that a member lacks.
func (v *VCenter) obtainDisks(ctx context.Context, ref plan.Ref, b *cloneBuilder, m *inventory.Member, now *FreshVM, wanted []disks.Addition) error {
	if !slices.ContainsFunc(wanted, func(w disks.Addition) bool { return w.Disk.Persistent }) {
		return nil
	}
	var all *places.Storage
	var reached *places.Reach
	err := v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		if all, err = v.storageOf(ctx, s, b.datacenter); err == nil {
			reached, err = v.reachOf(ctx, s, b.datacenter, *b.spec.Location.Pool)
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
		want := disks.Wanted{Owner: ownerOf(ref, m, w.Disk.Name), Cluster: v.cfg.ClusterID, Name: fmt.Sprintf("%s-%d/%s", ref, m.Stamp.Ordinal, w.Disk.Name),
			CapacityMB: int64(w.Disk.SizeGiB) << 10, Provisioning: disks.Provisioning[w.Disk.Provisioning], Profile: w.Profile, VM: vmOf(m, now)}
		if of := b.details.DisksOf; of != "" && of != want.Owner.UID {
			want.Former, want.FormerLives = want.Owner, v.inventory.HasMembers(apitypes.UID(of))
			want.Former.UID = of
		}
		if w.Datastore == "" {
			w.Datastore = home.Datastore
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
		for _, held := range b.details.Held {
			if held.Name == w.Disk.Name {
				want.Held = append(want.Held, disks.Ref{ID: held.ID, Datastore: held.Datastore})
			}
		}
		for _, d := range plan.Persistent(m.Stamp.Given) {
			if d.Name == w.Disk.Name && d.Parted == plan.PartedDeleted {
				want.Parted = append(want.Parted, disks.Ref{ID: d.ID, Datastore: d.Datastore})
			}
		}
		if w.Made, err = v.persistent.Obtain(ctx, want); err != nil {
			return err
		}
	}
	return nil
}

// growPersistent lets a member's persistent disks grow, and returns the member as it is then: its VM has another changeVersion if one did.
func (v *VCenter) growPersistent(ctx context.Context, ref plan.Ref, a plan.Action, m *inventory.Member, now *FreshVM, given []plan.MemberDisk) (*inventory.Member, *FreshVM, error) {
	grew, err := v.persistent.GrowAll(ctx, given, a.Details().Spec, now.Devices)
	if err != nil || !grew {
		return m, now, err
	}
	return v.reread(ctx, ref, a, now)
}

// trackBlocks turns changed block tracking on for a VM that is to have disks with it, and returns the member as it is then. Backup software
// turns it on for a VM and its disks, and vCenter does not attach such a disk to the next VM, which has it off (vsphere-csi-driver#1416).
func (v *VCenter) trackBlocks(ctx context.Context, ref plan.Ref, a plan.Action, m *inventory.Member, now *FreshVM, wanted []disks.Addition) (*inventory.Member, *FreshVM, error) {
	if now.Tracks || !slices.ContainsFunc(wanted, func(w disks.Addition) bool { return w.Made.Tracked }) {
		return m, now, nil
	}
	err := v.reconfigure(ctx, inventory.VMRef(a.MoRef), types.VirtualMachineConfigSpec{ChangeVersion: now.ChangeVersion, ChangeTrackingEnabled: types.NewBool(true)})
	if err != nil {
		return m, now, disks.TrackingRefused(a.VM, err)
	}
	return v.reread(ctx, ref, a, now)
}

// reread returns a member as it is after a change of ours to its VM. Only its changeVersion may be another one, for the stamp of another
// replica counts.
func (v *VCenter) reread(ctx context.Context, ref plan.Ref, a plan.Action, before *FreshVM) (*inventory.Member, *FreshVM, error) {
	if err := v.reader.Read(ctx, inventory.VMRef(a.MoRef)); err != nil {
		return nil, nil, err
	}
	m, err := v.own(ref, a)
	if err != nil {
		return nil, nil, err
	}
	now, err := v.lookUnchanged(ctx, ref, a, m)
	if err == nil && now.Stamp != before.Stamp {
		err = changedMeanwhile()
	}
	return m, now, err
}

// deleteDisks deletes persistent disks of a member that goes: while its VM is there, its stamp tells which. It detaches them first.
func (v *VCenter) deleteDisks(ctx context.Context, ref plan.Ref, a plan.Action) error {
	if err := v.awaitPower(ctx, inventory.VMRef(a.MoRef), tasks.PoweringOn...); err != nil {
		return err
	}
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	now, err := v.lookUnchanged(ctx, ref, a, m)
	if err == nil {
		err = partable(now, a)
	}
	if err != nil {
		return err
	}
	parted, ids := m.Stamp, plan.ArgsOf[plan.DeleteDisksArgs](a.Args).IDs
	parted.Given = plan.PartDisks(parted.Given, plan.PartedDeleted, ids)
	vm := disks.VM{MoRef: a.MoRef, ChangeVersion: now.ChangeVersion}
	if text := parted.Encode(); text != m.Stamp.Encode() { // also if none is attached: a replica that destroys the VM must know
		vm.Options = []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: text}}
	}
	if err := v.persistent.Detach(ctx, vm, now.Devices, ids...); err != nil {
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
		if err := v.persistent.Delete(ctx, func(o disks.Owner) bool { return o.UID == string(ref.UID) && o.Ordinal == int(a.Ordinal) }, at); err != nil {
			return err
		}
	}
	if err := v.reader.Read(ctx, inventory.VMRef(a.MoRef)); err != nil {
		return err
	}
	if m, err = v.own(ref, a); err != nil {
		return err
	}
	return v.restamp(ctx, m, func(s *stamp.Stamp) { s.Given = plan.DiskText(kept) })
}

// hasDisks checks, right before a member is powered on, that it has all its persistent disks, and no other VM has one. From then on they
// may hold data.
func (v *VCenter) hasDisks(ctx context.Context, ref plan.Ref, m *inventory.Member, a plan.Action) error {
	all := plan.Persistent(m.Stamp.Given)
	if len(all) == 0 {
		return nil
	}
	now, err := v.ReadFresh(ctx, inventory.VMRef(a.MoRef))
	if err == nil {
		err = check(now, ref, a) // another replica that has marked it since may be about to detach them
	}
	if err != nil {
		return err
	}
	var refs []disks.Ref
	for _, d := range all {
		if disks.Attached(now.Devices, d.ID) == nil {
			return disks.Missing(d.Name, a.VM)
		}
		refs = append(refs, disks.Where(d, now.Devices))
	}
	if err := v.persistent.Free(ctx, vmOf(m, now), refs...); err != nil {
		return err
	}
	return v.bindDisks(ctx, ref, m, all, now.Devices)
}

// bindDisks records that disks of a member, which are attached to it, may hold data.
func (v *VCenter) bindDisks(ctx context.Context, ref plan.Ref, m *inventory.Member, given []plan.MemberDisk, devices []types.BaseVirtualDevice) error {
	var all []disks.Owned
	for _, d := range given {
		if d.ID != "" {
			all = append(all, disks.Owned{Owner: ownerOf(ref, m, d.Name), Ref: disks.Where(d, devices)})
		}
	}
	return v.persistent.Bind(ctx, all...)
}

func ownerOf(ref plan.Ref, m *inventory.Member, disk string) disks.Owner {
	return disks.Owner{UID: string(ref.UID), Ordinal: int(m.Stamp.Ordinal), Disk: disk}
}

func vmOf(m *inventory.Member, now *FreshVM) disks.Holder {
	return disks.Holder{MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, On: now.Power == types.VirtualMachinePowerStatePoweredOn}
}
