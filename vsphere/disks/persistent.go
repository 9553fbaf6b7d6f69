// This file finds, makes, checks and deletes the persistent disks of an ordinal.
//
// It promises that it returns a disk only for a VM of the disk's owner, and only while no other VM has it; that it never replaces a disk
// that was in use by a new one: if a recorded disk is not found, or a datastore could not be read, it returns an error; and that it deletes
// only disks of the given owner that no VM has. It keeps no state of its own and has no locks.

package disks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Persistent finds, makes, checks and deletes the persistent disks of members.
type Persistent struct {
	*FirstClass
	log zerolog.Logger
}

// NewPersistent returns a Persistent that makes its calls through calls.
func NewPersistent(calls Caller, log zerolog.Logger) *Persistent {
	return &Persistent{NewFirstClass(calls), log}
}

// By returns a Persistent that makes its calls through those of one step.
func (p *Persistent) By(calls Caller) *Persistent {
	return &Persistent{&FirstClass{calls, p.owners}, p.log}
}

// Wanted describes a disk that a VM needs.
type Wanted struct {
	Owner Owner
	// Cluster is the --cluster-id of the server; empty for none.
	Cluster string
	// Former is the disk's owner in a deleted group of the same name, from the annotation take-disks-of; zero without it. FormerLives reports
	// whether VMs still have that group's stamp.
	Former      Owner
	FormerLives bool
	// Name is the disk's name, for people; a former owner's disk has it, too.
	Name       string
	CapacityMB int64
	// Provisioning and Profile are as in Spec; Datastore is the moRef of the datastore for a new disk.
	Provisioning, Datastore string
	Profile                 []types.BaseVirtualMachineProfileSpec
	// Known are the disks that the owner had before; one of them must be found.
	Known []Ref
	// Parted are the disks that the server began to delete. If one still exists, it is used, although vCenter may not list it yet.
	Parted []Ref
	// Datastores are the moRefs of all datastores: an existing disk may have been moved to any of them. Near are those that the VM's hosts
	// reach: an ordinal's first disk is made even if the others can't be read. Suitable are those on which a new disk can be made.
	Datastores, Near, Suitable []string
	// VM is the VM that needs the disk. It may have the disk already.
	VM Holder
}

// Holder is a VM by all the ids that vCenter can name it by.
type Holder struct {
	MoRef, InstanceUUID, UUID string
	// On reports whether the VM is powered on: its guest may write to a disk as soon as it is attached.
	On bool
}

// Obtain returns the owner's disk, large enough and in no other VM. If the owner never had a disk, Obtain takes the former owner's or, without a
// former owner, makes a new one. It doesn't make one if a former owner was named, because the user then wants the data of that disk.
//
// Each step is idempotent: a disk that was made before a crash is found by its owner. Two replicas of the server can each make a disk at the
// same time, but only one attaches its disk. The server binds a disk (Bind) after it has attached the disk, so an unbound disk is empty. If the
// VM runs, Obtain binds the disk before it is attached.
func (d *Persistent) Obtain(ctx context.Context, w Wanted) (Disk, error) {
	disk, err := d.find(ctx, w)
	if err != nil {
		return disk, err
	}
	if disk.ID == "" {
		disk, err = d.Create(ctx, Spec{Name: w.Name, Datastore: w.Datastore, CapacityMB: w.CapacityMB, Provisioning: w.Provisioning, Profile: w.Profile,
			Owner: w.Owner, Cluster: w.Cluster})
		if err != nil {
			return disk, err
		}
	}
	if err = d.Free(ctx, w.VM, disk.Ref); err != nil {
		return disk, err
	}
	if disk.Owner != w.Owner {
		if err = d.Give(ctx, disk.Ref, w.Owner); err != nil {
			return disk, err
		}
		disk.Owner = w.Owner
	}
	if w.VM.On {
		if err = d.Bind(ctx, Owned{w.Owner, disk.Ref}); err != nil {
			return disk, err
		}
	}
	_, err = d.grow(ctx, disk.Ref, w.CapacityMB)
	return disk, err
}

// Owned is a disk that a VM of its owner has.
type Owned struct {
	Owner
	Ref
}

// Bind records in the metadata of disks that they may contain data: the server never uses another disk in place of one that is bound.
func (d *Persistent) Bind(ctx context.Context, all ...Owned) error {
	for _, at := range all {
		disk, err := d.Retrieve(ctx, at.Ref)
		if err == nil {
			err = d.owned(disk, at.Owner)
		}
		if err == nil && !disk.Bound {
			err = d.FirstClass.Bind(ctx, at.Ref)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// grow extends a disk that is smaller than capacityMB, and reports whether it did.
func (d *Persistent) grow(ctx context.Context, at Ref, capacityMB int64) (grew bool, err error) {
	disk, err := d.Retrieve(ctx, at)
	if err != nil || disk.CapacityMB >= capacityMB {
		return false, err
	}
	err = d.Extend(ctx, at, capacityMB)
	return err == nil, err
}

// Provisioning has vCenter's name for each provisioning of the spec. A missing one means the default.
var Provisioning = map[v1alpha1.Provisioning]string{v1alpha1.ProvisioningThick: "lazyZeroedThick", v1alpha1.ProvisioningEagerZeroed: "eagerZeroedThick"}

// Where returns the reference of a member's disk with its present datastore: Storage DRS moves attached disks.
func Where(d plan.MemberDisk, devices []types.BaseVirtualDevice) Ref {
	at := Ref{ID: d.ID, Datastore: d.Datastore}
	if device := Attached(devices, d.ID); device != nil {
		if b, is := device.Backing.(types.BaseVirtualDeviceFileBackingInfo); is && b.GetVirtualDeviceFileBackingInfo().Datastore != nil {
			at.Datastore = b.GetVirtualDeviceFileBackingInfo().Datastore.Value
		}
	}
	return at
}

// GrowAll extends a member's persistent disks to their sizes in the spec, and reports whether it extended one. That changes the VM's
// changeVersion.
func (d *Persistent) GrowAll(ctx context.Context, given []plan.MemberDisk, spec *v1alpha1.VmGroupSpec, devices []types.BaseVirtualDevice) (grew bool, err error) {
	for _, has := range given {
		i := slices.IndexFunc(spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == has.Name })
		if has.ID == "" || i < 0 || spec.Disks[i].SizeGiB <= has.SizeGiB {
			continue
		}
		larger, err := d.grow(ctx, Where(has, devices), int64(spec.Disks[i].SizeGiB)<<10)
		if err != nil {
			return grew, err
		}
		grew = grew || larger
	}
	return grew, nil
}

// Free returns an error if another VM than vm has one of the disks.
func (d *Persistent) Free(ctx context.Context, vm Holder, disks ...Ref) error {
	uses, err := d.Uses(ctx, disks...)
	if err != nil {
		return err
	}
	for _, at := range disks {
		for _, use := range uses[at.ID] {
			if !use.In(vm.MoRef, vm.InstanceUUID, vm.UUID) {
				return vcfault.ForOperator(vcfault.ReasonDiskInUse, "The disk %s is in the VM %s: detach it there.", at.ID, use.VM)
			}
		}
	}
	return nil
}

// find returns the owner's disk. If the owner never had one, the disk that it returns has no id.
func (d *Persistent) find(ctx context.Context, w Wanted) (Disk, error) {
	for i, at := range slices.Concat(w.Known, w.Parted) {
		switch disk, err := d.Retrieve(ctx, at); {
		case err == nil && (i < len(w.Known) || disk.Owner == w.Owner):
			return disk, d.owned(disk, w.Owner)
		case err != nil && vcfault.Classify("", err).Reason != vcfault.ReasonDiskMissing:
			return disk, err
		}
	}
	// An existing disk may be on any datastore, so no new disk is made while a datastore cannot be read. For an ordinal that never had a disk and
	// has no former owner, the datastores on which a new disk can be made are enough.
	first := len(w.Known) == 0 && w.Former == Owner{}
	search := w.Datastores
	if first {
		search = w.Near
	}
	// Both owners are looked for at once: this process may still remember the former owner of a disk that another replica has just given to w.Owner.
	found := d.Find(ctx, search, func(o Owner) bool { return o == w.Owner || w.Former != Owner{} && o == w.Former })
	slices.SortFunc(found.Disks, func(a, b Disk) int { return strings.Compare(a.ID, b.ID) })
	var own, bound, former []Disk
	for _, x := range found.Disks {
		switch {
		case x.Owner != w.Owner && x.Name == w.Name:
			former = append(former, x)
		case x.Owner == w.Owner && (len(w.Known) == 0 && x.Bound || slices.ContainsFunc(w.Known, func(at Ref) bool { return at.ID == x.ID })):
			bound = append(bound, x)
		case x.Owner == w.Owner:
			own = append(own, x)
		}
	}
	unread := w.unread(&found, first)
	if len(bound)+len(w.Known) == 0 && w.Former != (Owner{}) && (len(former) > 0 || unread == nil) {
		var err error
		if bound, err = w.inherited(former); err != nil {
			return Disk{}, errors.Join(unread, err)
		}
	}
	switch {
	case len(bound) > 1:
		return Disk{}, vcfault.ForOperator(vcfault.ReasonDuplicateDisk, "The metadata of two disks says that they are %s (%s and %s), and both have data: delete the one that is a copy.", w.Name, bound[0].ID, bound[1].ID)
	case len(bound) == 1:
		return bound[0], nil
	case unread != nil:
		return Disk{}, unread
	case len(w.Known) > 0:
		return Disk{}, vcfault.ForOperator(vcfault.ReasonDiskMissing, "The disk %s (%s) is not found where it was, nor elsewhere: look for it in vCenter. If its data is lost, put its id into the annotation give-up-disks, and a new one is made.", w.Known[0].ID, w.Name)
	case len(own) > 0:
		return own[0], nil
	}
	if aside := len(w.Datastores) - len(w.Near); aside+len(found.Unread)+len(found.Skipped) > 0 {
		d.log.Warn().Str("disk", w.Name).Int("datastoresOutOfReach", aside).Int("datastoresUnread", len(found.Unread)).Int("disksUnread", len(found.Skipped)).
			Errs("errors", slices.Collect(maps.Values(found.Unread))).Msg("making the first persistent disk of an ordinal without having searched all datastores")
	}
	return Disk{}, nil
}

// unread returns the error of a datastore on which a disk that was not found may be; nil if there is none. For an ordinal's first disk, only the
// datastores on which it can be made count.
func (w *Wanted) unread(found *Found, first bool) error {
	var all []error
	for _, at := range slices.Sorted(maps.Keys(found.Unread)) {
		if !first || slices.Contains(w.Suitable, at) {
			all = append(all, found.Unread[at])
		}
	}
	for _, at := range w.Known {
		if err := found.Skipped[at.ID]; err != nil && vcfault.Classify("", err).Reason != vcfault.ReasonDiskMissing {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// inherited returns those of the former owner's disks that the owner can take. The former group must be gone, and of this cluster: the server
// can't find out whether another cluster's group is gone.
func (w *Wanted) inherited(former []Disk) ([]Disk, error) {
	group, why := w.Former.UID, "no disk of that name is found whose metadata names that group"
	fit := slices.DeleteFunc(slices.Clone(former), func(x Disk) bool {
		switch {
		case x.Cluster != w.Cluster:
			why = fmt.Sprintf("the disk %s is of the cluster %q, and this is %q: if that group is gone, set the key %s of the disk's metadata to this cluster's --cluster-id, or remove it if there is none", x.ID, x.Cluster, w.Cluster, KeyCluster)
		case !x.Bound:
			why = fmt.Sprintf("the disk %s was never in use", x.ID)
		default:
			return false
		}
		return true
	})
	switch {
	case len(fit) == 0:
		return nil, vcfault.ForOperator(vcfault.ReasonFormerDiskUnavailable, "The annotation take-disks-of says that %s is a disk of the group %s; %s. Nothing is created instead: correct the UID, or remove the annotation for a new, empty disk.", w.Name, group, why)
	case w.FormerLives:
		return nil, vcfault.ForOperator(vcfault.ReasonFormerDiskUnavailable, "The annotation take-disks-of says that %s is a disk of the group %s, which still has VMs: delete that group, or remove the annotation.", w.Name, group)
	}
	return fit, nil
}

// owned returns an error if a disk's metadata has another owner.
func (d *Persistent) owned(disk Disk, owner Owner) error {
	if disk.Owner == owner {
		return nil
	}
	named := "no owner"
	if disk.Owner != (Owner{}) {
		named = "the owner " + disk.Owner.String()
	}
	return vcfault.ForOperator(vcfault.ReasonDiskInUse, "The metadata of the disk %s names %s, and not %s: correct it.", disk.ID, named, owner)
}

// Delete deletes a disk whose owner is accepted by owner and that no VM has. It is no error if the disk is gone.
func (d *Persistent) Delete(ctx context.Context, owner func(Owner) bool, at Ref) error {
	disk, err := d.Retrieve(ctx, at)
	switch {
	case vcfault.Classify("", err) != nil && vcfault.Classify("", err).Reason == vcfault.ReasonDiskMissing:
		return nil
	case err != nil:
		return err
	case !owner(disk.Owner):
		return vcfault.ForOperator(vcfault.ReasonDiskInUse, "The metadata of the disk %s names the owner %s now, so it was not deleted: correct it.", disk.ID, disk.Owner)
	}
	if err = d.Free(ctx, Holder{}, at); err != nil {
		return err
	}
	return d.FirstClass.Delete(ctx, at)
}
