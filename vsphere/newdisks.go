package vsphere

import (
	"cmp"
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
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
	given, changes, missing, err := disks.Growing(given, a.Details.Spec, now.Devices, m.Stamp.Disks, a.VM)
	if err == nil && len(changes) > 0 && now.Snapshots {
		err = vcfault.New(vcfault.ReasonDiskHeldBySnapshot, true, "The disks of %s cannot grow while it has snapshots: remove them.", a.VM)
	}
	if err != nil {
		return err
	}
	var added []plan.MemberDisk
	var attached []disks.Disk
	if len(missing) > 0 {
		a.Folder = m.Folder
		b, err := v.newCloneBuilder(ref, a)
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
