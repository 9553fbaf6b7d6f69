package disks

import (
	"context"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Caller makes calls on the current session, and awaits tasks. *vsphere.VCenter implements it, and so does each of its steps.
type Caller interface {
	Call(ctx context.Context, f func(context.Context, *session.Session) error) error
	Task(ctx context.Context, start func(context.Context, *session.Session) (types.ManagedObjectReference, error)) (*types.TaskInfo, error)
}

// FirstClass makes calls to vCenter's manager of first-class disks. Its methods can be called from any goroutine.
type FirstClass struct {
	calls  Caller
	owners *owners
}

// NewFirstClass returns a FirstClass that has read nothing yet.
func NewFirstClass(calls Caller) *FirstClass { return &FirstClass{calls, new(owners)} }

// Spec describes a new disk.
type Spec struct {
	Name       string // need not be unique
	Datastore  string // the moRef
	CapacityMB int64
	// Provisioning is one of types.BaseConfigInfoDiskFileBackingInfoProvisioningType. If it is empty, the disk has the profile's or is thin.
	Provisioning string
	// Profile is the storage policy. If it is empty, the disk has the datastore's default policy.
	Profile []types.BaseVirtualMachineProfileSpec
	Owner   Owner
	// Cluster is the --cluster-id; empty for none.
	Cluster string
}

// Create creates a disk with its metadata. vCenter keeps the disk when its VM is destroyed. Create is one task, which is atomic and not
// idempotent: after an error that vcfault.Refused does not recognize, the disk may exist or may still be created.
func (d *FirstClass) Create(ctx context.Context, spec Spec) (Disk, error) {
	keep := true
	metadata := []types.KeyValue{{Key: KeyOwner, Value: spec.Owner.String()}}
	if spec.Cluster != "" {
		metadata = append(metadata, types.KeyValue{Key: KeyCluster, Value: spec.Cluster})
	}
	info, err := d.task(ctx, func(ctx context.Context, s *session.Session, manager types.ManagedObjectReference) (types.ManagedObjectReference, error) {
		res, err := methods.CreateDisk_Task(ctx, s.Vim, &types.CreateDisk_Task{This: manager, Spec: types.VslmCreateSpec{
			Name: spec.Name, KeepAfterDeleteVm: &keep, CapacityInMB: spec.CapacityMB, Profile: spec.Profile,
			BackingSpec: &types.VslmCreateSpecDiskFileBackingSpec{
				VslmCreateSpecBackingSpec: types.VslmCreateSpecBackingSpec{Datastore: datastoreRef(spec.Datastore)}, ProvisioningType: spec.Provisioning},
			Metadata: metadata,
		}})
		if err != nil {
			return types.ManagedObjectReference{}, err
		}
		return res.Returnval, nil
	})
	if err != nil {
		return Disk{}, refused(creating, err)
	}
	made, is := info.Result.(types.VStorageObject)
	if !is || made.Config.Id.Id == "" {
		return Disk{}, vcfault.NotVCenterAPI("CreateDisk_Task", nil)
	}
	disk := readDisk(made, spec.Datastore)
	if disk.Owner == (Owner{}) { // the task's result may leave the metadata out
		disk.Owner, disk.Cluster = spec.Owner, spec.Cluster
	}
	return disk, nil
}

// Retrieve reads a disk. ReasonDiskMissing means that vCenter doesn't find the disk now: it was moved or deleted, or the catalogue lags.
func (d *FirstClass) Retrieve(ctx context.Context, at Ref) (disk Disk, err error) {
	err = d.call(ctx, func(ctx context.Context, s *session.Session, manager types.ManagedObjectReference) error {
		disk, err = retrieve(ctx, s, manager, at)
		return err
	})
	return disk, refused(reading, err)
}

func retrieve(ctx context.Context, s *session.Session, manager types.ManagedObjectReference, at Ref) (Disk, error) {
	res, err := methods.RetrieveVStorageObject(ctx, s.Vim, &types.RetrieveVStorageObject{This: manager, Id: at.id(), Datastore: at.datastore()})
	if err != nil {
		return Disk{}, err
	}
	if res.Returnval.Config.Id != at.id() {
		return Disk{}, vcfault.NotVCenterAPI("RetrieveVStorageObject", nil)
	}
	return readDisk(res.Returnval, at.Datastore), nil
}

// Use is a VM that a disk is attached to.
type Use struct {
	VM  string // the "ID of the virtual machine" of VMware's reference: see In
	Key int32  // of the device
}

// In reports whether u.VM is the VM with these ids. VMware's reference does not say which of its ids vCenter returns, so In compares all.
func (u Use) In(moRef, instanceUUID, uuid string) bool {
	return u.VM != "" && (u.VM == moRef || u.VM == instanceUUID || u.VM == uuid)
}

// Uses returns the VMs that each disk is attached to, by the disk's id. It returns an error if vCenter's answer lacks a disk or has a fault
// for it: unknown is not unused.
func (d *FirstClass) Uses(ctx context.Context, disks ...Ref) (map[string][]Use, error) {
	if len(disks) == 0 {
		return nil, nil
	}
	ids := make([]types.RetrieveVStorageObjSpec, len(disks))
	for i, at := range disks {
		ids[i] = types.RetrieveVStorageObjSpec{Id: at.id(), Datastore: at.datastore()}
	}
	uses := map[string][]Use{}
	err := d.call(ctx, func(ctx context.Context, s *session.Session, manager types.ManagedObjectReference) error {
		clear(uses)
		res, err := methods.RetrieveVStorageObjectAssociations(ctx, s.Vim, &types.RetrieveVStorageObjectAssociations{This: manager, Ids: ids})
		if err != nil {
			return err
		}
		for _, a := range res.Returnval {
			if a.Fault != nil {
				return &faultError{a.Fault}
			}
			uses[a.Id.Id] = []Use{}
			for _, vm := range a.VmDiskAssociations {
				uses[a.Id.Id] = append(uses[a.Id.Id], Use{VM: vm.VmId, Key: vm.DiskKey})
			}
		}
		for _, at := range disks {
			if _, known := uses[at.ID]; !known {
				return vcfault.ForOperator(vcfault.ReasonDiskMissing, "vCenter's answer does not say which VM has the disk %s.", at.ID)
			}
		}
		return nil
	})
	if err != nil {
		return nil, refused(reading, err)
	}
	return uses, nil
}

// Bind records in a disk's metadata that a guest is about to use the disk. It is idempotent.
func (d *FirstClass) Bind(ctx context.Context, at Ref) error {
	return d.note(ctx, at, types.KeyValue{Key: KeyBound, Value: bound})
}

// Give records another owner in a disk's metadata. It is idempotent. The caller must have read the disk's owner right before.
func (d *FirstClass) Give(ctx context.Context, at Ref, to Owner) error {
	err := d.note(ctx, at, types.KeyValue{Key: KeyOwner, Value: to.String()})
	if err == nil {
		d.owners.note(at.ID, to)
	}
	return err
}

// note writes an entry of a disk's metadata. It does not change the other entries.
func (d *FirstClass) note(ctx context.Context, at Ref, entry types.KeyValue) error {
	_, err := d.task(ctx, func(ctx context.Context, s *session.Session, manager types.ManagedObjectReference) (types.ManagedObjectReference, error) {
		res, err := methods.VCenterUpdateVStorageObjectMetadataEx_Task(ctx, s.Vim, &types.VCenterUpdateVStorageObjectMetadataEx_Task{
			This: manager, Id: at.id(), Datastore: at.datastore(), Metadata: []types.KeyValue{entry}})
		if err != nil {
			return types.ManagedObjectReference{}, err
		}
		return res.Returnval, nil
	})
	return refused(binding, err)
}

// Extend makes a disk larger, whether it is attached or not, and whether its VM is on or off. The caller must have read the disk, because
// vCenter may refuse a capacity that the disk has already. Extend names the disk and not a VM's device, so it needs no changeVersion: even if
// the call reaches vCenter late, the disk gets the capacity that was asked for.
func (d *FirstClass) Extend(ctx context.Context, at Ref, capacityMB int64) error {
	_, err := d.task(ctx, func(ctx context.Context, s *session.Session, manager types.ManagedObjectReference) (types.ManagedObjectReference, error) {
		res, err := methods.ExtendDisk_Task(ctx, s.Vim, &types.ExtendDisk_Task{This: manager, Id: at.id(), Datastore: at.datastore(), NewCapacityInMB: capacityMB})
		if err != nil {
			return types.ManagedObjectReference{}, err
		}
		return res.Returnval, nil
	})
	return refused(extending, err)
}

// Delete deletes a disk and its contents. vCenter refuses to delete a disk that a VM has. The caller must have read the disk's owner right
// before.
func (d *FirstClass) Delete(ctx context.Context, at Ref) error {
	_, err := d.task(ctx, func(ctx context.Context, s *session.Session, manager types.ManagedObjectReference) (types.ManagedObjectReference, error) {
		res, err := methods.DeleteVStorageObject_Task(ctx, s.Vim, &types.DeleteVStorageObject_Task{This: manager, Id: at.id(), Datastore: at.datastore()})
		if err != nil {
			return types.ManagedObjectReference{}, err
		}
		return res.Returnval, nil
	})
	return refused(deleting, err)
}

// call makes a call on vCenter's manager of first-class disks.
func (d *FirstClass) call(ctx context.Context, f func(context.Context, *session.Session, types.ManagedObjectReference) error) error {
	return d.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		manager, err := manager(s)
		if err != nil {
			return err
		}
		return f(ctx, s, manager)
	})
}

// task starts a task of vCenter's manager of first-class disks, and awaits it.
func (d *FirstClass) task(ctx context.Context, start func(context.Context, *session.Session, types.ManagedObjectReference) (types.ManagedObjectReference, error)) (*types.TaskInfo, error) {
	return d.calls.Task(ctx, func(ctx context.Context, s *session.Session) (types.ManagedObjectReference, error) {
		manager, err := manager(s)
		if err != nil {
			return types.ManagedObjectReference{}, err
		}
		return start(ctx, s, manager)
	})
}
