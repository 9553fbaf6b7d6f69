package vsphere

import (
	"context"
	"fmt"
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
	grew, err := v.persistent.GrowAll(ctx, given, a.Details.Spec, now.Devices)
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
	parted := m.Stamp
	parted.Given = plan.PartDisks(parted.Given, plan.PartedDeleted, a.GiveUp)
	vm := disks.VM{MoRef: a.MoRef, ChangeVersion: now.ChangeVersion}
	if text := parted.Encode(); text != m.Stamp.Encode() { // also if none is attached: a replica that destroys the VM must know
		vm.Options = []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: text}}
	}
	if err := v.persistent.Detach(ctx, vm, now.Devices, a.GiveUp...); err != nil {
		return err
	}
	var gone []disks.Ref
	var kept []plan.MemberDisk
	for _, d := range plan.DisksIn(m.Stamp.Given) {
		if slices.Contains(a.GiveUp, d.ID) {
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
