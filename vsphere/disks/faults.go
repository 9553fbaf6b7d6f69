package disks

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// step is the operation that failed. The meaning of a fault depends on it.
type step int

const (
	reading step = iota
	creating
	binding
	attaching
	detaching
	extending
	deleting
)

// rule gives a fault of a step its reason and message. The first rule that matches applies. Faults without a rule have those of package vcfault.
type rule struct {
	is     func(error) bool
	steps  []step // nil for all steps
	reason string
	words  string
}

var rules = []rule{
	// A snapshot of the VM keeps its disks: "Invalid configuration for device '0'" (vsphere-csi-driver#478).
	{vcfault.Has[*types.InvalidDeviceSpec], []step{detaching}, vcfault.ReasonDiskHeldBySnapshot,
		"The VM has snapshots, so vCenter does not detach its disks: remove the snapshots of the VM."},
	{vcfault.Has[*types.InvalidDeviceBacking], []step{detaching}, vcfault.ReasonDiskHeldBySnapshot,
		"The VM has snapshots, so vCenter does not detach its disks: remove the snapshots of the VM."},
	{vcfault.Has[*types.MissingController], nil, vcfault.ReasonTemplateUnfit,
		"The VM has no such disk controller: add it to the template."},
	{vcfault.Has[*types.DeviceUnsupportedForVmPlatform], nil, vcfault.ReasonTemplateUnfit,
		"The VM's virtual hardware does not take the disk: use a template with a newer hardware version, or another controller."},
	{vcfault.Has[*types.DeviceUnsupportedForVmVersion], nil, vcfault.ReasonTemplateUnfit,
		"The VM's virtual hardware does not take the disk: use a template with a newer hardware version, or another controller."},
	{vcfault.Has[types.BaseDeviceNotSupported], nil, vcfault.ReasonTemplateUnfit,
		"The VM's virtual hardware does not take the disk: use a template with a newer hardware version, or another controller."},
	{vcfault.Has[*types.InvalidDeviceSpec], []step{attaching}, vcfault.ReasonTemplateUnfit,
		"The unit of the VM's controller that the disk needs is in use by another device."},
	{vcfault.Has[*types.NotFound], nil, vcfault.ReasonDiskMissing, missing},
	{vcfault.Has[*types.FileNotFound], nil, vcfault.ReasonDiskMissing, missing},
	{func(err error) bool { return vcfault.MissingObject(err).Type == "Datastore" }, nil, vcfault.ReasonDiskMissing, "The disk's datastore is no longer in vCenter."},
	{vcfault.Has[*types.ResourceInUse], nil, vcfault.ReasonDiskInUse, "Another VM has the disk: detach it there."},
	{locked, nil, vcfault.ReasonDiskInUse, "Another VM, or a backup, has the disk open: power that VM off, or detach the disk there."},
	{invalidState, []step{extending}, vcfault.ReasonDiskExtendRefused,
		"vCenter does not extend the disk now: remove the snapshots of the disk and of its VM, and check that the hosts run vSphere 7.0 U2 or newer, or power the VM off."},
	{vcfault.Has[types.BaseNotSupported], []step{extending}, vcfault.ReasonDiskExtendRefused,
		"vCenter does not extend the disk while it is attached to a running VM: check that the hosts run vSphere 7.0 U2 or newer, or power the VM off."},
	{invalidState, []step{deleting}, vcfault.ReasonDiskHeldBySnapshot,
		"vCenter does not delete the disk: remove its snapshots, and detach it from any VM."},
	{invalidState, []step{attaching}, vcfault.ReasonDiskInUse,
		"vCenter does not attach the disk as it is: another VM has it, or had it when it was deleted. If none has it, rescan the storage of the hosts of the VM's cluster."},
	{vcfault.Has[types.BaseInvalidDatastore], []step{attaching}, vcfault.ReasonDiskOutOfReach,
		"The disk's datastore cannot be used from the VM's host: connect the host to the datastore, or place the group's members where it is."},
}

const missing = "vCenter does not find the disk where it was: the disk may have been moved or deleted, or vCenter's catalog may be behind. The server does not recreate it by itself."

// locked reports whether a step failed because another VM has a disk open. ESXi reports that in the messages of a GenericVmConfigFault
// (vmware/vic#5713: "msg.fileio.lock", "Failed to lock the file").
func locked(err error) bool {
	return vcfault.Has[*types.FileLocked](err) || vcfault.Says(err, "msg.fileio.lock")
}

// invalidState reports whether an error is InvalidState, without a more specific fault.
func invalidState(err error) bool {
	return vcfault.Classify("", err).Reason == vcfault.ReasonInvalidState && vcfault.Has[types.BaseInvalidState](err)
}

// refused returns the error of a step with the reason and message of the rule that matches, or of package vcfault.
func refused(at step, err error) error {
	if e := known(at, err); e != nil || err == nil {
		return e
	}
	return vcfault.Classify("", err)
}

// known returns the error of a step with the reason and message of the rule that matches; nil if none does.
func known(at step, err error) error {
	if err == nil {
		return nil
	}
	for _, r := range rules {
		if r.is(err) && (r.steps == nil || slices.Contains(r.steps, at)) {
			e := vcfault.ForOperator(r.reason, "%s", r.words)
			e.Err = err
			return e
		}
	}
	return nil
}

// oldestHardware is the oldest virtual hardware version for which VMware supports Kubernetes volumes, which are first-class disks. Older
// versions were another cause of InvalidState (vsphere-csi-driver#1416).
const oldestHardware = 15

// AttachRefused returns the reason and message for the error of a reconfigure that attaches these first-class disks, among other changes, to a
// VM with that hardware version ("vmx-19"; empty if unknown). It returns an error that is not about disks unchanged.
func AttachRefused(err error, hardware string, disks ...Disk) error {
	if err == nil || !invalidState(err) {
		return cmp.Or(known(attaching, err), err)
	}
	var e *vcfault.Error
	version, unknown := strconv.Atoi(strings.TrimPrefix(hardware, "vmx-"))
	tracked := slices.IndexFunc(disks, func(d Disk) bool { return d.Tracked })
	switch {
	case tracked >= 0:
		e = vcfault.ForOperator(vcfault.ReasonDiskTracked, "vCenter does not attach the disk %s, for which changed block tracking is on, as backup software sets it, though the VM has it on, too (ctkEnabled): if the VM runs, power it off and on; if another VM has the disk, detach it there; else turn tracking off for the disk.", disks[tracked].ID)
	case unknown == nil && version < oldestHardware:
		e = vcfault.ForOperator(vcfault.ReasonDiskInUse, "%s Or its hardware version, %d, is the reason: upgrade that of the template to %d or newer.", vcfault.Classify("", known(attaching, err)).Message, version, oldestHardware)
	default:
		return known(attaching, err)
	}
	e.Err = err
	return e
}

// TrackingRefused returns the reason and message for a failure to turn on changed block tracking for a VM, which it needs for a disk that has
// changed block tracking.
func TrackingRefused(vm string, err error) error {
	if err == nil || !(invalidState(err) || vcfault.Has[types.BaseNotSupported](err) || vcfault.Has[types.BaseInvalidArgument](err)) {
		return err
	}
	e := vcfault.ForOperator(vcfault.ReasonDiskTracked, "Changed block tracking is on for a persistent disk, as backup software sets it, and cannot be turned on for %s (ctkEnabled): upgrade the hardware version of the template, or turn tracking off for the disk.", vm)
	e.Err = err
	return e
}

// PowerOnRefused returns the reason and message for the failed power-on of a VM with first-class disks: a disk is missing, or another VM has
// one open. It returns other errors unchanged.
func PowerOnRefused(err error) error {
	if locked(err) || vcfault.Has[*types.FileNotFound](err) {
		return refused(attaching, err)
	}
	return err
}

// manager returns vCenter's manager of first-class disks. Metadata can be changed since vSphere 7.0 U2.
func manager(s *session.Session) (types.ManagedObjectReference, error) {
	manager, about := s.Vim.ServiceContent.VStorageObjectManager, s.Vim.ServiceContent.About
	if manager == nil || older(about.ApiVersion, 7, 0, 2) {
		return types.ManagedObjectReference{}, vcfault.ForOperator(vcfault.ReasonDisksUnsupported,
			"Persistent disks need vCenter and ESXi 7.0 U2 or newer; this is vCenter %s.", about.Version)
	}
	return *manager, nil
}

// older reports whether a version, such as "7.0.2.0", is older than another.
func older(version string, than ...int) bool {
	for i, part := range strings.Split(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || i == len(than) || n > than[i] {
			return false
		}
		if n < than[i] {
			return true
		}
	}
	return false
}

// faultError is a fault inside an answer.
type faultError struct{ fault *types.LocalizedMethodFault }

func (e *faultError) Error() string                { return e.fault.LocalizedMessage }
func (e *faultError) Fault() types.BaseMethodFault { return e.fault.Fault }
