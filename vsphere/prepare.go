package vsphere

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// preparation is a step that gives a member what its clone could not.
type preparation struct{ *step }

// prepare gives a member what its clone could not: tags and custom attributes, which no clone spec has, and the network
// configuration with its adapters' MAC addresses, which exist only after the clone. Later it brings tags and attributes up to
// date.
//
// A first write records in the stamp which tags and attributes the VM may have, so that they are removed if they are no longer
// wanted before this is done; a clone's stamp has that from the start. (Found by TestChaos, seed 60068.) The last write says
// that all is done, so the next plan continues after a crash anywhere. It is one reconfigure with the network configuration,
// guarded by the changeVersion that the plan saw, or that the first write left. Neither tags nor attributes
// are in a VM's config ([doc] changeVersion is of "a given version of the configuration"); if they were, the guard would
// refuse once, and the next try would find nothing left to set.
//
// Two replicas that know different specs may do this at once, and nothing guards the calls that set tags and attributes.
// So the first write is made even if it says nothing new: of two replicas, vCenter refuses one's last write, and that one
// then records in the stamp that the member is to be prepared again. The writes have the generation, so that a replica that knows
// an older spec begins nothing more. (Found by TestChaos, seed 700062: a member had lost an attribute.)
func (p preparation) run(ctx context.Context) (err error) {
	m, err := p.own()
	if err != nil {
		return err
	}
	if p.action.Details() == nil || p.action.Details().Spec == nil {
		return vcfault.ForOperator(vcfault.ReasonInternal, "The step Prepare of %s has no details.", p.action.VM)
	}
	if m.Stamp.Prepared == p.action.Details().Prepared {
		return nil // nothing to do, and published
	}
	if err := p.unchanged(m); err != nil {
		return err
	}
	former := plan.PreparationIn(m.Stamp.Prepared)
	now, err := p.readUnprepared(ctx, m, m.Stamp.Unprepared()) // before anything is changed
	if err == nil && m.Stamp.Unprepared() && m.Stamp.Former.Entry == "" {
		now, err = p.finishClone(ctx, now)
	}
	if err != nil {
		return err
	}
	first := &firstWrite{preparation: p, member: now.member}
	begin := sync.OnceValue(func() error { return first.write(ctx) })
	defer func() {
		if err != nil && first.written {
			p.prepareAgain(ctx, first.member.ChangeVersion)
		}
	}()
	if err := p.setTags(ctx, p.action.Details().Spec.Tags, former.Tags, begin); first.failed != nil {
		return first.failed
	} else if err != nil {
		return p.tagFailure(ctx, err)
	}
	if err := p.setAttributes(ctx, now.values, p.action.Details().Spec.CustomAttributes, former.Attributes, begin); err != nil {
		return cmp.Or(first.failed, err)
	}
	m = first.member
	stamp := m.Stamp
	stamp.Prepared, stamp.Generation = p.action.Details().Prepared, max(stamp.Generation, p.action.Generation)
	if m.Stamp.Unprepared() { // it was never on, so its disks are those that the clone made
		stamp.Disks = disks.Own(disks.Identify(stamp.Disks, now.devices), now.given, now.devices)
		stamp.Given = plan.DiskText(now.given)
	}
	err = p.writeStampAnd(ctx, m.MoRef, m.ChangeVersion, stamp.Encode(), now.config)
	switch {
	case now.config.VmProfile != nil:
		err = EncryptionRefusal(err)
	case now.addsTPM:
		err = TPMRefusal(err)
	}
	return err
}

// finishClone gives a clone that was never on its hardware version, and finds its disks, what its guest is told, whether it lacks a virtual TPM,
// which PCI devices it gets, and by which policies it is encrypted. It returns the VM as it is then.
func (p preparation) finishClone(ctx context.Context, now *unprepared) (*unprepared, error) {
	wanted := plan.PreparationIn(p.action.Details().Prepared)
	var err error
	if HardwareVersion(now.version) < wanted.Version {
		if now, err = p.upgrade(ctx, wanted.Version); err != nil {
			return nil, err
		}
	}
	if now.addsTPM = wanted.TPM && !HasTPM(now.devices); now.addsTPM {
		now.config.DeviceChange = append(now.config.DeviceChange, NewTPM())
	}
	devices, err := pciDevices(wanted.PCIDevices)
	if err != nil {
		return nil, err
	}
	now.config.DeviceChange = append(now.config.DeviceChange, devices...)
	now.config.BootOptions = bootFirst(wanted.BootFirst, now.member.Stamp.Disks, now.devices)
	if wanted.Networks || wanted.Disks {
		if now.given, err = disks.Recognize(now.given, now.devices, p.action.VM); err != nil {
			return nil, err
		}
		if now.config.ExtraConfig, err = guestOptions(p.ref, p.action, now.member.InstanceUUID, now.devices, now.given); err != nil {
			return nil, err
		}
	}
	Encrypt(&now.config, plan.PreparationIn(now.member.Stamp.Prepared).Encrypt, now.given, now.devices)
	return now, checkCloneDisks(now.member.Stamp.Disks, now.devices, p.action.VM)
}

// firstWrite is the write of the stamp that comes before the first tag or attribute.
type firstWrite struct {
	preparation
	member  *inventory.Member // as it is after the write
	written bool
	failed  error
}

// write writes the stamp, unless the clone's stamp has it already. The error of the write must not reach the calls around it, which would take
// it for theirs and drop their session.
func (w *firstWrite) write(ctx context.Context) error {
	was := w.member.Stamp
	stamp := was
	stamp.Prepared = plan.PreparationBegun(was.Prepared, w.action.Details().Prepared)
	stamp.Generation = max(stamp.Generation, w.action.Generation)
	if stamp.Unprepared() && was.Prepared == plan.Unprepared+w.action.Details().Prepared && stamp.Generation == was.Generation {
		return nil
	}
	if w.failed = w.writeStamp(ctx, w.member.MoRef, w.member.ChangeVersion, stamp.Encode()); w.failed == nil {
		w.member, w.failed = w.own()
	}
	if w.failed != nil {
		return errFirstWrite
	}
	w.written = true
	return nil
}

var errFirstWrite = errors.New("the stamp could not say that the preparation begins")

// upgrade gives a VM that was never on a newer hardware version. A clone's spec cannot: ConfigSpec.version is used "only while creating a new
// virtual machine" (kubernetes-sigs/cluster-api-provider-vsphere#1652). Of two replicas, vCenter refuses one's AlreadyUpgraded.
func (p preparation) upgrade(ctx context.Context, version int32) (*unprepared, error) {
	_, err := p.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.UpgradeVM_Task(ctx, s.Vim, &types.UpgradeVM_Task{This: p.vm(), Version: fmt.Sprintf("vmx-%02d", version)})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil && !vcfault.Has[*types.AlreadyUpgraded](err) {
		return nil, upgradeRefusal(version, err)
	}
	if err := p.reader.Read(ctx, p.vm()); err != nil {
		return nil, err
	}
	m, err := p.own()
	if err != nil {
		return nil, err
	}
	return p.readUnprepared(ctx, m, true)
}

// upgradeRefusal says what to do about a hardware version that the VM's host does not have.
func upgradeRefusal(version int32, err error) error {
	why := vcfault.Classify("", err)
	if why.Reason != vcfault.ReasonNotSupported && why.Reason != vcfault.ReasonInvalidConfiguration {
		return err
	}
	e := vcfault.ForOperator(why.Reason, "The VM cannot be upgraded to hardware version %d: set spec.hardware.version to one that all hosts of its cluster have, or upgrade the hosts. %s", version, why.Message)
	e.Err = err
	return e
}

// prepareAgain follows a preparation that failed after its first write, which left changeVersion. What it set since may have
// undone what another replica did, whose stamp says that the member is prepared: prepareAgain changes the stamp to say that it is
// not. A failure here is not reported: the step has failed already.
func (p preparation) prepareAgain(ctx context.Context, changeVersion string) {
	for range prepareAgainTries {
		if p.reader.Read(ctx, p.vm()) != nil {
			return
		}
		m, err := p.own()
		if err != nil || m.ChangeVersion == changeVersion || m.Stamp.Prepared != "" && plan.PreparationIn(m.Stamp.Prepared).Digest == "" {
			return // the VM is gone, or nobody wrote since, or the replica that did is not done
		}
		stamp := m.Stamp
		stamp.Prepared = plan.PreparationBegun(m.Stamp.Prepared, p.action.Details().Prepared)
		if p.withoutLease().writeStamp(ctx, m.MoRef, m.ChangeVersion, stamp.Encode()) == nil {
			return
		}
	}
}

// prepareAgainTries is how often prepareAgain writes while others write at the same time.
const prepareAgainTries = 3

// unprepared is a member right before it is prepared.
type unprepared struct {
	member  *inventory.Member
	values  []types.BaseCustomFieldValue
	devices []types.BaseVirtualDevice
	version string // of the hardware
	// given are its disks, and config is what changes of its configuration with the stamp.
	given   []plan.MemberDisk
	config  types.VirtualMachineConfigSpec
	addsTPM bool
}

// readUnprepared reads what a preparation changes of a member, which nobody may have changed since the inventory read it.
func (p preparation) readUnprepared(ctx context.Context, m *inventory.Member, devices bool) (*unprepared, error) {
	paths := []string{"config.changeVersion", "customValue"}
	if devices {
		paths = append(paths, "config.hardware.device", "config.version")
	}
	now := unprepared{member: m, given: plan.DisksIn(m.Stamp.Given)}
	var changeVersion string
	err := p.Call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, p.vm(), paths...)
		changeVersion = session.Prop[string](o, "config.changeVersion")
		now.values = session.Prop[types.ArrayOfCustomFieldValue](o, "customValue").CustomFieldValue
		now.devices, now.version = session.Devices(o), session.Prop[string](o, "config.version")
		return err
	})
	if err == nil && changeVersion != m.ChangeVersion {
		err = errChanged()
	}
	return &now, err
}

// guestOptions returns the extraConfig entries with what a guest learns once its VM exists: its disks, and the network configuration, in
// which the n-th of spec.networks is for the n-th network adapter.
func guestOptions(ref plan.Ref, a plan.Action, instanceUUID string, devices []types.BaseVirtualDevice, given []plan.MemberDisk) ([]types.BaseOptionValue, error) {
	key, macs, want := guest.MetadataKey, MACsOf(devices), len(a.Details().Spec.Networks)
	if a.Details().Spec.CustomizationSpec != "" { // it has the networks
		key, want = guest.OwnMetadataKey, 0
	}
	if len(macs) < want {
		return nil, vcfault.ForOperator(vcfault.ReasonTooFewAdapters, "%s has %d network adapters, and spec.networks has %d: add adapters to the template, or remove networks.", a.VM, len(macs), want)
	}
	macs = macs[:want]
	if slices.Contains(macs, "") {
		return nil, vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "A network adapter of %s has no MAC address yet; it is read again.", a.VM)
	}
	return guest.Metadata(key, ref, a, instanceUUID, macs, disks.Paths(given))
}
