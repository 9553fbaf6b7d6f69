// This file is about the disks that the spec adds to members: it finds units for them on a VM's controllers, makes the device changes that
// create and extend them, and finds them again. Until vCenter's uuid of a new disk is known, the disk's record in the stamp names its SCSI
// controller and unit; from then on, the uuid.
//
// It makes no calls, keeps no state and has no locks.

package disks

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// EnableUUID is the extraConfig entry by which a guest sees the uuids of its SCSI disks, and so has /dev/disk/by-id/wwn-0x….
var EnableUUID = types.OptionValue{Key: "disk.EnableUUID", Value: "TRUE"}

// Addition is a disk to add to a VM.
type Addition struct {
	Disk *v1alpha1.Disk
	// Datastore is the name of the disk's datastore; empty for that of the VM.
	Datastore string
	// Profile is the disk's storage policy; nil for none. Compatible are the moRefs of the datastores that the policy allows, if the server is
	// to choose one.
	Profile    []types.BaseVirtualMachineProfileSpec
	Compatible map[string]bool
	// Encrypts is the policy's id if the policy encrypts; otherwise empty.
	Encrypts string
	// Made is a persistent disk that exists already; zero for a disk that vCenter is to create.
	Made Disk
}

const (
	// units is the number of units of a SCSI controller, and reserved the unit of the controller itself, unless the device names another.
	units, reserved = 16, 7
	// nextKey is the first of the temporary keys of new disks, which count down. vCenter replaces them.
	nextKey = -2000
)

// Add returns the device changes that add disks to a VM with these devices, and the disks' records. whose names the VM or the template, for the
// message of a fault if its controllers have too few free units.
func Add(devices []types.BaseVirtualDevice, wanted []Addition, whose string) (changes []types.BaseVirtualDeviceConfigSpec, records []plan.MemberDisk, err error) {
	free := freeUnits(devices)
	if len(free) < len(wanted) {
		return nil, nil, vcfault.ForOperator(vcfault.ReasonTemplateUnfit, "%s has %d free units on its SCSI controllers, and spec.disks needs %d: add a SCSI controller to the template, or remove disks.",
			whose, len(free), len(wanted))
	}
	for i, w := range wanted {
		at := free[i]
		change := &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationAdd, FileOperation: types.VirtualDeviceConfigSpecFileOperationCreate,
			Device: w.device(nextKey-int32(i), at), Profile: w.Profile}
		if w.Made.ID != "" {
			change = attachChange(Attachment{Disk: w.Made, Place: at}, nextKey-int32(i))
		}
		changes = append(changes, change)
		records = append(records, plan.MemberDisk{Name: w.Disk.Name, At: at.String(), SizeGiB: max(w.Disk.SizeGiB, int32(w.Made.CapacityMB>>10)), Shape: plan.DiskShape(w.Disk), ID: w.Made.ID, Datastore: w.Made.Datastore})
	}
	return changes, records, nil
}

// device is the device of a new disk. vCenter puts its file into the VM's directory on the datastore, and chooses the file's name ([doc]
// VirtualDeviceFileBackingInfo: "[datastore]" alone, or nothing for the VM's datastore). Both capacities are set, because vCenter accepts
// either.
func (w *Addition) device(key int32, at Place) *types.VirtualDisk {
	backing := &types.VirtualDiskFlatVer2BackingInfo{DiskMode: string(types.VirtualDiskModePersistent)}
	if w.Datastore != "" {
		backing.FileName = "[" + w.Datastore + "]"
	}
	p := cmp.Or(w.Disk.Provisioning, v1alpha1.ProvisioningThin)
	backing.ThinProvisioned = types.NewBool(p == v1alpha1.ProvisioningThin)
	backing.EagerlyScrub = types.NewBool(p == v1alpha1.ProvisioningEagerZeroed)
	disk := &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: key, Backing: backing, ControllerKey: at.Controller, UnitNumber: &at.Unit}}
	size(disk, w.Disk.SizeGiB)
	return disk
}

func size(disk *types.VirtualDisk, gib int32) {
	disk.CapacityInKB, disk.CapacityInBytes = int64(gib)<<20, int64(gib)<<30
}

// freeUnits returns the free units of the SCSI controllers, in the order of the controllers.
func freeUnits(devices []types.BaseVirtualDevice) (free []Place) {
	taken := map[Place]bool{}
	var controllers []*types.VirtualSCSIController
	for _, device := range devices {
		if d := device.GetVirtualDevice(); d.UnitNumber != nil {
			taken[Place{d.ControllerKey, *d.UnitNumber}] = true
		}
		if c, is := device.(types.BaseVirtualSCSIController); is {
			controllers = append(controllers, c.GetVirtualSCSIController())
		}
	}
	slices.SortFunc(controllers, func(a, b *types.VirtualSCSIController) int { return cmp.Compare(a.BusNumber, b.BusNumber) })
	for _, c := range controllers {
		for unit := range int32(units) {
			if p := (Place{c.Key, unit}); !taken[p] && unit != reserved && unit != cmp.Or(c.ScsiCtlrUnitNumber, reserved) {
				free = append(free, p)
			}
		}
	}
	return free
}

// Grow returns the device change that extends a disk to a size in GiB; nil if the disk has that size or more.
func Grow(disk *types.VirtualDisk, gib int32) types.BaseVirtualDeviceConfigSpec {
	if capacity(disk) >= int64(gib)<<30 {
		return nil
	}
	grown := *disk
	size(&grown, gib)
	return &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: &grown}
}

// capacity is a disk's size in bytes.
func capacity(disk *types.VirtualDisk) int64 {
	return cmp.Or(disk.CapacityInBytes, disk.CapacityInKB<<10)
}

// Smaller returns an error if a template's disk is larger than the size of members' disks, gib.
func Smaller(disk *types.VirtualDisk, gib int32, template string) error {
	if capacity(disk) <= int64(gib)<<30 {
		return nil
	}
	return vcfault.ForOperator(vcfault.ReasonTemplateUnfit, "The first disk of %s has %d GiB, and a disk cannot shrink: set spec.rootDisk.sizeGiB to at least that, or remove rootDisk.",
		template, (capacity(disk)+1<<30-1)>>30)
}

// Find returns the disk of a record; nil if the VM does not have it.
func Find(devices []types.BaseVirtualDevice, record *plan.MemberDisk) *types.VirtualDisk {
	all := In(devices)
	i := slices.IndexFunc(all, func(disk *types.VirtualDisk) bool {
		if record.ID != "" {
			return disk.VDiskId != nil && disk.VDiskId.Id == record.ID
		}
		if record.UUID != "" && record.UUID != plan.NoUUID {
			return UUID(disk) == record.UUID
		}
		return disk.UnitNumber != nil && record.At == Place{disk.ControllerKey, *disk.UnitNumber}.String()
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// Recognize adds the uuids of disks to their records. It returns an error if the VM lacks a disk whose uuid is not known yet.
func Recognize(records []plan.MemberDisk, devices []types.BaseVirtualDevice, vm string) ([]plan.MemberDisk, error) {
	records = slices.Clone(records)
	for i := range records {
		r := &records[i]
		if r.Parted != "" {
			if Find(devices, r) != nil { // an operator attached it again
				r.Parted = ""
			}
			continue
		}
		if r.Name == "" || r.UUID != "" {
			continue
		}
		disk := Find(devices, r)
		if disk == nil {
			return nil, Missing(r.Name, vm)
		}
		r.UUID = cmp.Or(UUID(disk), plan.NoUUID)
	}
	return records, nil
}

// Missing returns the fault for a VM that no longer has a disk of the spec.
func Missing(disk, vm string) error {
	return vcfault.ForOperator(vcfault.ReasonDiskMissing, "%s no longer has its disk %s: attach it again, or name the member in spec.replace.", vm, disk)
}

// Own adds the disks of the records to the stamp's record of the disks that the clone made, so that vCenter destroys them with the VM,
// wherever their files are.
func Own(made string, records []plan.MemberDisk, devices []types.BaseVirtualDevice) string {
	entries := strings.Fields(made)
	for i := range records {
		r := &records[i]
		if r.Name == "" || r.ID != "" {
			continue
		}
		disk := Find(devices, r)
		if disk == nil {
			continue
		}
		entry := strconv.Itoa(int(disk.Key))
		if uuid := UUID(disk); uuid != "" {
			entry += "=" + uuid
		}
		if !slices.Contains(entries, entry) {
			entries = append(entries, entry)
		}
	}
	return strings.Join(entries, " ")
}

// Paths are the device files of a Linux guest's disks, by name.
func Paths(records []plan.MemberDisk) map[string]string {
	var paths map[string]string
	for _, r := range records {
		if r.Name == "" || r.UUID == "" || r.UUID == plan.NoUUID {
			continue
		}
		if paths == nil {
			paths = map[string]string{}
		}
		paths[r.Name] = "/dev/disk/by-id/wwn-0x" + strings.ToLower(strings.ReplaceAll(r.UUID, "-", ""))
	}
	return paths
}

// Growing compares the records of a VM's disks with the spec. It returns the updated records, the device changes that extend disks, and the
// disks of the spec that have no record. made is the stamp's record of the disks that the clone made.
func Growing(records []plan.MemberDisk, spec *v1alpha1.VmGroupSpec, devices []types.BaseVirtualDevice, made, vm string) (grown []plan.MemberDisk, changes []types.BaseVirtualDeviceConfigSpec, missing []v1alpha1.Disk, err error) {
	grown = slices.DeleteFunc(slices.Clone(records), func(r plan.MemberDisk) bool { return r.Parted != "" })
	record := func(name string) *plan.MemberDisk {
		if i := slices.IndexFunc(grown, func(r plan.MemberDisk) bool { return r.Name == name }); i >= 0 {
			return &grown[i]
		}
		return nil
	}
	grow := func(disk *types.VirtualDisk, name string, gib int32) {
		if disk == nil {
			err = cmp.Or(err, Missing(cmp.Or(name, "of the template"), vm))
			return
		}
		if change := Grow(disk, gib); change != nil {
			changes = append(changes, change)
		}
	}
	if root := spec.RootDisk; root != nil {
		if r := record(""); r == nil {
			grown = slices.Insert(grown, 0, plan.MemberDisk{SizeGiB: root.SizeGiB})
			grow(First(made, devices), "", root.SizeGiB)
		} else if r.SizeGiB < root.SizeGiB {
			r.SizeGiB = root.SizeGiB
			grow(First(made, devices), "", root.SizeGiB)
		}
	}
	for i := range spec.Disks {
		want := &spec.Disks[i]
		switch r := record(want.Name); {
		case r == nil:
			missing = append(missing, *want)
		case r.SizeGiB < want.SizeGiB:
			if r.SizeGiB = want.SizeGiB; r.ID == "" {
				grow(Find(devices, r), r.Name, want.SizeGiB)
			}
		}
	}
	return grown, changes, missing, err
}

// Refusal returns ReasonDiskExtendRefused if vCenter refused to change the VM's disks, and other errors unchanged.
func Refusal(vm string, err error) error {
	if err == nil {
		return nil
	}
	refused := vcfault.Classify("", err)
	switch refused.Reason {
	case vcfault.ReasonInvalidConfiguration, vcfault.ReasonNotSupported, vcfault.ReasonRefused, vcfault.ReasonInternal, vcfault.ReasonInvalidState, vcfault.ReasonInvalidPowerState:
		return vcfault.ForOperator(vcfault.ReasonDiskExtendRefused, "vCenter refuses to add or extend the disks of %s as it is: power it off once, or name it in spec.replace. %s", vm, refused.Message)
	}
	return err
}
