package check

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// secondName is the name of the second VM, to which the trial also attaches its disk.
	secondName = "vmgroup-check-1"
	// diskMB is the size of that disk: small, and thin unless the datastore's policy says otherwise.
	diskMB = 1024
	// findTimeout limits the time until a new disk is listed.
	findTimeout = time.Minute

	privFiles = "Datastore.FileManagement"
	noDisks   = "there can be no persistent disks on this vCenter"
)

// trialDisk is the first-class disk of the trial.
type trialDisk struct {
	calls  *disks.FirstClass
	owner  disks.Owner
	here   string                       // the datastore's moRef
	unsure bool                         // the disk may exist, because the reply to its creation was lost
	made   disks.Disk                   // the ID is empty while there is no disk
	second types.ManagedObjectReference // the other VM
}

// manageable returns what the creation of a disk lacks.
func manageable(t *trial, ctx context.Context) string {
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return "the VM's disks could not be read"
	}
	for _, disk := range disks.In(now.Devices) {
		if b, is := disk.Backing.(types.BaseVirtualDeviceFileBackingInfo); is && b.GetVirtualDeviceFileBackingInfo().Datastore != nil {
			t.disk.here = b.GetVirtualDeviceFileBackingInfo().Datastore.Value
		}
	}
	if t.disk.here == "" {
		return "the VM has no disk on a datastore"
	}
	at := types.ManagedObjectReference{Type: "Datastore", Value: t.disk.here}
	if held, err := t.privileges(ctx, []types.ManagedObjectReference{at}); err != nil || !held[at][privFiles] {
		return "needs " + privFiles + " on the VM's datastore"
	}
	return ""
}

// hasDisk returns what the experiments with the disk lack.
func hasDisk(t *trial, _ context.Context) string {
	if t.disk.made.ID == "" {
		return "there is no first-class disk to try it with"
	}
	return ""
}

// because reports whether an error of vCenter has this reason.
func because(err error, reason string) bool {
	return err != nil && vcfault.Classify("", err).Reason == reason
}

// createDisk creates a first-class disk, and finds it by its metadata.
func (t *trial) createDisk(ctx context.Context) outcome {
	d := &t.disk
	d.calls, d.owner = disks.NewFirstClass(t.v), disks.Owner{UID: t.id, Disk: "data"}
	name := scratchPrefix + t.id[:8] + "/data"
	made, err := d.calls.Create(t.end, disks.Spec{Name: name, Datastore: d.here, CapacityMB: diskMB, Owner: d.owner})
	switch {
	case because(err, vcfault.ReasonDisksUnsupported):
		return inconclusive(vcfault.Classify("", err).Message, "")
	case err != nil:
		d.unsure = !vcfault.Refused(err)
		return failedBy(err)
	}
	d.made = made
	now, err := d.calls.Retrieve(ctx, made.Ref)
	switch {
	case err != nil:
		return failedBy(err)
	case now.Owner != d.owner:
		return refuted("the disk does not have the metadata of its creation", noDisks+": the server could not tell which member has which disk")
	case now.Name != name:
		return refuted(fmt.Sprintf("the disk's name %q reads back as %q", name, now.Name), "the annotation take-disks-of would find no disk of a former group")
	case !now.Keep:
		return refuted("the disk does not have the flag keepAfterDeleteVm of its creation", noDisks)
	}
	began := t.now()
	listed := within(ctx, findTimeout, func(ctx context.Context) bool { return len(d.find(ctx)) == 1 })
	took := t.now().Sub(began)
	facts := Facts{"listed": yes(listed), "listedAfterMs": millis(took)}
	if !listed {
		return refuted(fmt.Sprintf("the disk is not listed after %s", findTimeout), "a disk whose creation's reply was lost would not be found").with(facts)
	}
	if err := d.calls.Bind(t.end, made.Ref); err != nil {
		return failedBy(err)
	}
	if now, err = d.calls.Retrieve(ctx, made.Ref); err != nil || !now.Bound || now.Owner != d.owner {
		return refuted("the disk's metadata cannot be changed", noDisks).with(facts)
	}
	return confirmed("created with its metadata and keepAfterDeleteVm; found by its owner after %s", took.Round(time.Millisecond)).with(facts)
}

// attachDisk attaches the disk to a VM, by the path that its file has now.
func (t *trial) attachDisk(vm types.ManagedObjectReference) error {
	now, err := t.v.ReadFresh(t.end, vm)
	if err != nil {
		return err
	}
	disk, err := t.disk.calls.Retrieve(t.end, t.disk.made.Ref)
	if err != nil {
		return err
	}
	devices, device := object.VirtualDeviceList(now.Devices), new(types.VirtualDisk)
	controller, err := devices.FindDiskController("scsi")
	if err != nil {
		return vcfault.ForOperator(vcfault.ReasonTemplateUnfit, "The template has no SCSI controller with a free unit.")
	}
	devices.AssignController(device, controller)
	place := disks.Place{Controller: device.ControllerKey, Unit: *device.UnitNumber}
	return t.disk.calls.Attach(t.end, disks.VM{MoRef: vm.Value, ChangeVersion: now.ChangeVersion}, disks.Attachment{Disk: disk, Place: place})
}

// find finds the disk by its owner.
func (d *trialDisk) find(ctx context.Context) []disks.Disk {
	return d.calls.Find(ctx, []string{d.here}, func(o disks.Owner) bool { return o == d.owner }).Disks
}

// detachDisk takes the disk from a VM, by its file if vCenter does not show its id.
func (t *trial) detachDisk(vm types.ManagedObjectReference) error {
	now, err := t.v.ReadFresh(t.end, vm)
	if err != nil {
		return err
	}
	for _, disk := range disks.In(now.Devices) {
		if disks.File(disk) == t.disk.made.File {
			disk.VDiskId = &types.ID{Id: t.disk.made.ID}
		}
	}
	return t.disk.calls.Detach(t.end, disks.VM{MoRef: vm.Value, ChangeVersion: now.ChangeVersion}, now.Devices, t.disk.made.ID)
}

// diskOf returns the device of the disk in the trial's VM; nil if there is none.
func (t *trial) diskOf(ctx context.Context) (*types.VirtualDisk, error) {
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return nil, err
	}
	return disks.Attached(now.Devices, t.disk.made.ID), nil
}

// shareDisk attaches the disk to the VM, and tries to use it in a second VM as well.
func (t *trial) shareDisk(ctx context.Context) outcome {
	if err := t.off(ctx, t.vm); err != nil {
		return failedBy(err)
	}
	switch err := t.attachDisk(t.vm); {
	case because(err, vcfault.ReasonTemplateUnfit):
		return inconclusive(vcfault.Classify("", err).Message, "name another template to include this check")
	case err != nil:
		return failedBy(err)
	}
	device, err := t.diskOf(ctx)
	if err != nil {
		return failedBy(err)
	}
	if device == nil {
		return refuted("the VM has no device with the disk's id after it was attached", noDisks+": the server could not tell which disks a member has")
	}
	t.progress("cloning a second VM, for the disk of the first")
	spec, config := t.spec, *t.spec.Config
	config.InstanceUuid = uuid.NewString()
	config.ExtraConfig = []types.BaseOptionValue{&types.OptionValue{Key: trialKey, Value: t.stamp}, &types.OptionValue{Key: copyKey, Value: t.id}}
	spec.Config = &config
	clone := t.clone(inventory.VMRef(t.template.moRef), secondName, spec)
	if clone.err != nil {
		return failedBy(clone.err)
	}
	t.disk.second = clone.vm
	err = t.attachDisk(clone.vm)
	if because(err, vcfault.ReasonDiskInUse) {
		return confirmed("a second VM was refused the disk when it was to be attached").with(Facts{"refusedAtAttach": yes(true)})
	}
	if err != nil {
		return failedBy(err)
	}
	if err = t.on(t.vm); err == nil {
		err = t.on(clone.vm)
		refusedOn := disks.PowerOnRefused(err)
		if gone := t.off(ctx, clone.vm); gone == nil && refusedOn != nil {
			_ = t.detachDisk(clone.vm) // otherwise the clean-up does
		}
		facts := Facts{"refusedAtAttach": yes(false), "refusedAtPowerOn": yes(err != nil)}
		switch {
		case err == nil:
			return refuted("two running VMs have the disk", noDisks+": two members could write to one disk").with(facts)
		case because(refusedOn, vcfault.ReasonDiskInUse):
			return confirmed("a second VM had the disk, and was refused when it was to be powered on").with(facts)
		}
	}
	return failedBy(err)
}

// on powers a VM on, on the host that it is on.
func (t *trial) on(vm types.ManagedObjectReference) error {
	return t.do(vm, (*object.VirtualMachine).PowerOn)
}

// off powers a VM off. If the VM is off already, it starts no task.
func (t *trial) off(ctx context.Context, vm types.ManagedObjectReference) error {
	var power types.VirtualMachinePowerState
	if _, err := t.read(ctx, vm, session.To("runtime.powerState", &power)); err == nil && power == types.VirtualMachinePowerStatePoweredOff {
		return nil
	}
	return t.powerOff(vm)
}

// outliveVM destroys the second VM with the disk attached.
func (t *trial) outliveVM(ctx context.Context) outcome {
	d := &t.disk
	if err := t.detachDisk(t.vm); err != nil {
		return failedBy(err)
	}
	if d.second.Value == "" {
		return inconclusive("there is no second VM to destroy", "see the finding above")
	}
	if err := t.attachDisk(d.second); err != nil {
		return failedBy(err)
	}
	if err := t.do(d.second, (*object.VirtualMachine).Destroy); err != nil {
		return failedBy(err)
	}
	_, err := d.calls.Retrieve(ctx, d.made.Ref)
	facts := Facts{"survived": yes(err == nil)}
	if because(err, vcfault.ReasonDiskMissing) {
		d.made = disks.Disk{}
		return refuted("the disk was destroyed with the VM that had it", noDisks+": one would be lost with its member's VM").with(facts)
	}
	if err == nil {
		err = d.calls.Delete(t.end, d.made.Ref)
	}
	if err != nil {
		return failedBy(err)
	}
	d.made = disks.Disk{}
	return confirmed("the disk outlived the VM that had it, and was deleted").with(facts)
}

// sweepDisk takes the disk from the trial's VMs, and deletes it.
func (t *trial) sweepDisk() error {
	d := &t.disk
	if d.made.ID == "" && d.unsure {
		t.progress("looking for the first-class disk, because vCenter's reply to its creation was lost")
		within(t.end, findTimeout, func(ctx context.Context) bool {
			for _, one := range d.find(ctx) {
				d.made = one
			}
			return d.made.ID != ""
		})
		d.unsure = false
	}
	if d.made.ID == "" {
		return nil
	}
	for _, vm := range t.made {
		if err := t.detachDisk(vm); err != nil && vcfault.MissingObject(err) != vm {
			return err
		}
	}
	err := d.calls.Delete(t.end, d.made.Ref)
	if err == nil || because(err, vcfault.ReasonDiskMissing) {
		d.made = disks.Disk{}
		return nil
	}
	return err
}
