package vsphere

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// preparation is a step that configures what a clone spec cannot.
type preparation struct{ *step }

// run sets the member's tags and custom attributes, which no clone spec has, and its guest's network configuration, which needs the MAC addresses
// that exist only after the clone. Later it brings tags and attributes up to date.
//
// The first write records in the stamp the tags and attributes that the VM may get, so that they are removed if the spec drops them before run is
// done; a clone's stamp has this record from the start. (Found by TestChaos, seed 60068.) The last write records that all is done, so that the
// next plan continues after a crash at any point. It is one reconfigure together with the network configuration, guarded by the changeVersion
// that the plan saw, or that the first write left. Tags and attributes are not in a VM's config ([doc] changeVersion is of "a given version of the
// configuration"); if they were, vCenter would refuse the last write once, and the next try would find nothing left to set.
//
// Two replicas that know different specs may prepare a member at once, and nothing guards the calls that set tags and attributes. So the first
// write is made even if it changes nothing: vCenter refuses the last write of one replica, and that replica records in the stamp that the member
// is to be prepared again. The writes have the generation, so that a replica that knows an older spec begins no further preparation. (Found by
// TestChaos, seed 700062: a member had lost an attribute.)
func (p preparation) run(ctx context.Context) (err error) {
	m, err := p.own()
	if err != nil {
		return err
	}
	if p.action.Details() == nil || p.action.Details().Spec == nil {
		return vcfault.ForOperator(vcfault.ReasonInternal, "The step Prepare of %s has no details.", p.action.Key)
	}
	tagged := plan.Tagged{MoRef: m.MoRef, Asked: p.action.Details().Asked, At: stamp.Time(time.Now())}
	if m.Stamp.Prepared == p.action.Details().Prepared && m.Stamp.Tagged.Asked == tagged.Asked && (m.Stamp.Tagged.MoRef == "" || m.Stamp.Tagged.MoRef == tagged.MoRef) {
		return nil // already prepared
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
	if plan.HasTags(p.action.Details().Spec) {
		stamp.Tagged = tagged
	}
	stamp.Prepared, stamp.Generation = p.action.Details().Prepared, max(stamp.Generation, p.action.Generation)
	if m.Stamp.Unprepared() { // the VM was never on, so its disks are those of the clone
		stamp.Disks = disks.Own(disks.Identify(stamp.Disks, now.devices, now.file), now.given, now.devices)
		stamp.Given = plan.DiskText(now.given)
	}
	err = p.writeStampAnd(ctx, m.MoRef, m.ChangeVersion, stamp.Encode(), now.config)
	switch {
	case now.config.VmProfile != nil:
		err = hardware.EncryptionRefusal(err)
	case now.addsTPM:
		err = hardware.TPMRefusal(err)
	}
	return err
}

// finishClone upgrades the hardware of a VM that was never on, and collects the changes that its first preparation makes: guest data, a virtual
// TPM, PCI devices, the boot order and encryption. It returns the VM as last read.
func (p preparation) finishClone(ctx context.Context, now *unprepared) (*unprepared, error) {
	wanted := plan.PreparationIn(p.action.Details().Prepared)
	var err error
	if hardware.Version(now.version) < wanted.Version {
		if now, err = p.upgrade(ctx, wanted.Version); err != nil {
			return nil, err
		}
	}
	if now.addsTPM = wanted.TPM && !hardware.HasTPM(now.devices); now.addsTPM {
		now.config.DeviceChange = append(now.config.DeviceChange, hardware.AddTPM())
	}
	devices, err := hardware.AddPCIDevices(wanted.PCIDevices)
	if err != nil {
		return nil, err
	}
	now.config.DeviceChange = append(now.config.DeviceChange, devices...)
	now.config.BootOptions = hardware.BootFirst(wanted.BootFirst, now.member.Stamp.Disks, now.devices)
	if wanted.Networks || wanted.Disks {
		if now.given, err = disks.Recognize(now.given, now.devices, p.action.Key); err != nil {
			return nil, err
		}
		if now.config.ExtraConfig, err = guestOptions(p.ref, p.action, now.member.InstanceUUID, now.devices, now.given); err != nil {
			return nil, err
		}
	}
	hardware.Encrypt(&now.config, plan.PreparationIn(now.member.Stamp.Prepared).Encrypt, now.given, now.devices)
	return now, checkCloneDisks(now.member.Stamp.Disks, now.devices, p.action.Key)
}

// firstWrite writes the stamp before the first tag or attribute is set.
type firstWrite struct {
	preparation
	member  *inventory.Member // as read after the write
	written bool
	failed  error
}

// write writes the stamp, unless the clone's stamp has the record already. It returns errFirstWrite in place of the write's error: the calls around
// write would take that error for their own, and drop their session.
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

var errFirstWrite = errors.New("writing the stamp before the first tag or attribute failed")

// upgrade upgrades the hardware version of a VM that was never on. A clone spec cannot, because ConfigSpec.version is used "only while creating a
// new virtual machine" (kubernetes-sigs/cluster-api-provider-vsphere#1652). If another replica was first, vCenter answers AlreadyUpgraded.
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

// upgradeRefusal explains the refusal of a hardware version that the VM's host does not have.
func upgradeRefusal(version int32, err error) error {
	why := vcfault.Classify("", err)
	if why.Reason != vcfault.ReasonNotSupported && why.Reason != vcfault.ReasonInvalidConfiguration {
		return err
	}
	e := vcfault.ForOperator(why.Reason, "The VM cannot be upgraded to hardware version %d: set spec.hardware.version to one that all hosts of its cluster have, or upgrade the hosts. %s", version, why.Message)
	e.Err = err
	return e
}

// prepareAgain runs after a preparation that failed after its first write, which left changeVersion. That preparation may have overwritten the tags
// and attributes of another replica, which recorded in the stamp that the member is prepared. prepareAgain removes that record. It reports no
// error, because the step has already failed.
func (p preparation) prepareAgain(ctx context.Context, changeVersion string) {
	for range prepareAgainTries {
		if p.reader.Read(ctx, p.vm()) != nil {
			return
		}
		m, err := p.own()
		if err != nil || m.ChangeVersion == changeVersion || m.Stamp.Prepared != "" && plan.PreparationIn(m.Stamp.Prepared).Digest == "" {
			return // the VM is gone, or unchanged, or another replica is still preparing it
		}
		stamp := m.Stamp
		stamp.Prepared = plan.PreparationBegun(m.Stamp.Prepared, p.action.Details().Prepared)
		if p.withoutLease().writeStamp(ctx, m.MoRef, m.ChangeVersion, stamp.Encode()) == nil {
			return
		}
	}
}

// prepareAgainTries bounds the writes of prepareAgain while other replicas write at the same time.
const prepareAgainTries = 3

// unprepared is the state of a member before its preparation.
type unprepared struct {
	member  *inventory.Member
	values  []types.BaseCustomFieldValue
	devices []types.BaseVirtualDevice
	version string // of the hardware
	file    string // the .vmx file
	// given are the disks of the spec, and config has the changes that are made together with the stamp's last write.
	given   []plan.MemberDisk
	config  types.VirtualMachineConfigSpec
	addsTPM bool
}

// readUnprepared reads the properties that a preparation changes. It fails if the VM has changed since the inventory read it.
func (p preparation) readUnprepared(ctx context.Context, m *inventory.Member, devices bool) (*unprepared, error) {
	now := unprepared{member: m, given: plan.DisksIn(m.Stamp.Given)}
	var changeVersion string
	all := session.Properties{session.To("config.changeVersion", &changeVersion),
		session.Taking("customValue", func(v types.ArrayOfCustomFieldValue) { now.values = v.CustomFieldValue })}
	if devices {
		all = append(all, session.Devices(&now.devices), session.To("config.version", &now.version), session.To("config.files.vmPathName", &now.file))
	}
	err := p.Call(ctx, func(ctx context.Context, s *session.Session) error {
		_, err := session.ReadProps(ctx, s, p.vm(), all...)
		return err
	})
	if err == nil && changeVersion != m.ChangeVersion {
		err = errChanged()
	}
	return &now, err
}

// guestOptions returns the extraConfig entries for the guest that need the VM's devices: its disks, and the network configuration, where the n-th
// of spec.networks is for the n-th network adapter.
func guestOptions(ref plan.Ref, a plan.Action, instanceUUID string, devices []types.BaseVirtualDevice, given []plan.MemberDisk) ([]types.BaseOptionValue, error) {
	key, macs, want := guest.MetadataKey, hardware.MACsOf(devices), len(a.Details().Spec.Networks)
	if a.Details().Spec.CustomizationSpec != "" { // the specification configures the networks
		key, want = guest.OwnMetadataKey, 0
	}
	if len(macs) < want {
		return nil, vcfault.ForOperator(vcfault.ReasonTooFewAdapters, "%s has %d network adapters, and spec.networks has %d: add adapters to the template, or remove networks.", a.Key, len(macs), want)
	}
	macs = macs[:want]
	if slices.Contains(macs, "") {
		return nil, vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "A network adapter of %s has no MAC address yet; it is read again.", a.Key)
	}
	return guest.Metadata(key, ref, a, instanceUUID, macs, disks.Paths(given))
}
