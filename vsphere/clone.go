// This file clones a member, in the order of the work: the steps (cloneSteps) fill the clone spec, and then the task runs. clonebuilder.go has the
// state that the steps share, lookups.go the answers that they keep, and clonerefusal.go what follows a refusal. networks.go, owner.go and clonedisks.go
// each have one noun of a clone; the others are packages: vsphere/source, vsphere/hardware, vsphere/places and vsphere/hosts.

package vsphere

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/hosts"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/library"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/source"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// clone clones a member. The clone spec has the stamp, so that no VM of the server ever exists without a stamp. The VM stays off, because a
// power-on within the clone would be a second task, for which nothing waits. The name is the lock: of two clones of one ordinal, vCenter
// refuses one, and the step that was refused finds the other's VM.
//
// The steps before the task only read, and their answers are kept for other clones (session.Cache). If the reply to CloneVM_Task is lost, the
// clone may still run: clone returns the error, and the next try finds the VM or the taken name.
func (st *step) clone(ctx context.Context) error {
	b, err := st.newCloneBuilder(st.ref, st.action, st.action.Folder())
	if err != nil {
		return err
	}
	for _, part := range b.cloneSteps() {
		if err := part.fill(ctx); err != nil {
			return b.failure(ctx, err)
		}
	}
	st.inventory.Meanings.Note(st.ref.UID, b.meant.Now())
	st.inventory.Evidence.Making(st.ref.UID, b.id)
	info, err := b.begin(ctx)
	for err != nil && (b.dropDeniedFields(err) || b.keepTemplateAdapters(err) || b.clearHost(err)) {
		info, err = b.begin(ctx)
	}
	var taken *types.DuplicateName
	if _, is := fault.As(err, &taken); is {
		return b.resolveNameConflict(ctx, taken.Object)
	}
	if err != nil {
		return b.failure(ctx, err)
	}
	vm, is := info.Result.(types.ManagedObjectReference)
	if !is {
		return b.resolveNameConflict(ctx, types.ManagedObjectReference{})
	}
	st.inventory.Evidence.Made(st.ref.UID, plan.VMID{MoRef: vm.Value, InstanceUUID: b.id})
	return st.reader.Read(ctx, vm)
}

// cloneSteps returns the steps of building a clone, in order. Previews and the check run those that need no real clone.
func (b *cloneBuilder) cloneSteps() []cloneStep {
	return []cloneStep{
		{name: "template and snapshot", fill: b.fillSource, base: true},
		{name: "size", fill: b.fillSize, base: true},
		{name: "hardware", fill: b.fillHardware},
		{name: "extraConfig", fill: b.fillExtraConfig},
		{name: "resource pool", fill: b.fillPool, base: true},
		{name: "hardware version", fill: b.checkVersion},
		{name: "host group", fill: b.checkHostGroup, only: aMember},
		{name: "storage", fill: b.fillStorage},
		{name: "networks", fill: b.fillAdapters},
		{name: "devices", fill: b.checkPCIDevices},
		{name: "guest", fill: b.fillGuest, only: aClone},
		{name: "owner", fill: b.fillOwner, only: aMember},
		{name: "customization", fill: b.fillCustomization, only: aMember},
		{name: "tags", fill: b.checkTags, only: aMember},
		{name: "datastore", fill: b.fillDatastore, last: true},
		{name: "disks", fill: b.fillNewDisks, last: true},
		{name: "host", fill: b.fillHost, only: aClone},
	}
}

// fillSource sets the source of the clone, and how its disks are created:
//
//	Full                 a copy of the template
//	Full, snapshot       a copy of the snapshot; [doc] moveAllDiskBackingsAndDisallowSharing: "any delta disk backings will be consolidated"
//	Linked               child disks of the template's current snapshot
//	Linked, snapshot     child disks of the named snapshot; [doc] createNewChildDiskBacking: "only valid when cloning from a snapshot"
func (b *cloneBuilder) fillSource(ctx context.Context) error {
	key := source.Key{Ref: inventory.VMRef(b.clone.Template), Fingerprint: b.clone.Fingerprint}
	return b.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		ask := func() (*source.Source, error) { return source.Read(ctx, s, key.Ref) }
		clone := b.details.Spec.Clone
		if clone.Mode != v1alpha1.CloneLinked && clone.Snapshot == "" {
			b.source, err = b.lookups.sources.Get(ctx, s, key, knownFor, ask)
			return err
		}
		snapshot, err := session.LookUpIn(ctx, s, &b.lookups.sources, key, ask, func(x *source.Source) (types.ManagedObjectReference, error) {
			return source.FindSnapshot(x.Snapshots, clone, b.details.Spec.Template)
		})
		if err != nil {
			return err
		}
		// The clone also gets the configuration of the snapshot, whose cores and adapters may differ from the template's.
		key := source.Key{Ref: snapshot}
		b.source, err = b.lookups.sources.Get(ctx, s, key, knownFor, func() (*source.Source, error) { return source.Read(ctx, s, snapshot) })
		b.spec.Snapshot = &snapshot
		b.spec.Location.DiskMoveType = string(types.VirtualMachineRelocateDiskMoveOptionsMoveAllDiskBackingsAndDisallowSharing)
		if clone.Mode == v1alpha1.CloneLinked {
			b.spec.Location.DiskMoveType = string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)
		}
		return err
	})
}

// fillSize sets the clone's CPUs and memory, and the instanceUuid that its stamp names.
func (b *cloneBuilder) fillSize(_ context.Context) error {
	b.spec.Config = &types.VirtualMachineConfigSpec{
		NumCPUs: b.clone.CPU, NumCoresPerSocket: b.source.Cores(b.clone.CPU), MemoryMB: b.clone.MemoryMB, InstanceUuid: b.id,
	}
	return nil
}

// fillHardware sets the fields of spec.hardware; the clone inherits the others from the template. vCenter applies a reservation at power-on.
func (b *cloneBuilder) fillHardware(ctx context.Context) error {
	h, config := b.details.Spec.Hardware, b.spec.Config
	if h.CoresPerSocket > 0 {
		config.NumCoresPerSocket = &h.CoresPerSocket
	}
	config.CpuHotAddEnabled, config.MemoryHotAddEnabled = h.CPUHotAdd, h.MemoryHotAdd
	hardware.Allocate(config, &h)
	if h.SecureBoot != nil || h.BootDelaySeconds > 0 {
		config.BootOptions = &types.VirtualMachineBootOptions{EfiSecureBootEnabled: h.SecureBoot, BootDelay: 1000 * int64(h.BootDelaySeconds)}
	}
	if h.BootFirst == v1alpha1.BootNetwork && len(b.source.NICs())+len(b.details.Spec.Networks) == 0 {
		return b.unfit("has no network adapter to boot from: set spec.networks, or remove spec.hardware.bootFirst")
	}
	bios := b.source.Firmware == string(types.GuestOsDescriptorFirmwareTypeBios)
	if h.SecureBoot != nil && *h.SecureBoot && bios {
		return b.unfit("boots with BIOS, which has no secure boot: use a template that boots with EFI, or remove spec.hardware.secureBoot")
	}
	version := max(b.source.Version, h.Version) // at the first power-on
	if len(h.PCIDevices) > 0 && b.source.Version > 0 && version < v1alpha1.MinPCIDeviceVersion {
		return b.unfit("has hardware version %d, and PCI devices need %d: set spec.hardware.version, or remove spec.hardware.pciDevices", version, v1alpha1.MinPCIDeviceVersion)
	}
	if !h.VTPM {
		return nil
	}
	if bios {
		return b.unfit("boots with BIOS, which has no virtual TPM: use a template that boots with EFI, or remove spec.hardware.vtpm")
	}
	if b.source.Version > 0 && version < v1alpha1.MinVTPMVersion {
		return b.unfit("has hardware version %d, and a virtual TPM needs %d: set spec.hardware.version, or remove spec.hardware.vtpm", version, v1alpha1.MinVTPMVersion)
	}
	return b.Call(ctx, func(_ context.Context, s *session.Session) error {
		if b.source.HasTPM() && !s.Has(session.TPMPolicy) {
			return b.unfit("has a virtual TPM, whose secrets this vCenter copies to each clone: remove it from the template, so that each member gets its own, or upgrade vCenter to API version 8.0.0.1 or newer")
		}
		return nil
	})
}

// unfit returns the fault of a template that does not fit spec.hardware.
func (b *cloneBuilder) unfit(why string, args ...any) error {
	return vcfault.ForOperator(vcfault.ReasonInvalidConfiguration, "The template %q %s.", b.details.Spec.Template, fmt.Sprintf(why, args...))
}

// fillExtraConfig sets the advanced settings of spec.extraConfig.
func (b *cloneBuilder) fillExtraConfig(_ context.Context) error {
	for _, key := range slices.Sorted(maps.Keys(b.details.Spec.ExtraConfig)) {
		if !b.cfg.ExtraKeys.allow(key) {
			return vcfault.ForOperator(vcfault.ReasonInvalidConfiguration, "The server does not allow the key %q of spec.extraConfig: remove it, or start the server with an --extra-config that matches it.", key)
		}
		b.spec.Config.ExtraConfig = append(b.spec.Config.ExtraConfig, &types.OptionValue{Key: key, Value: b.details.Spec.ExtraConfig[key]})
	}
	return nil
}

// fillPool sets the clone's resource pool: that of the member's zone, spec.placement.pool, or, in the settings' datacenter, the pool of the server's
// settings.
func (b *cloneBuilder) fillPool(ctx context.Context) error {
	name, field := b.details.Spec.Placement.Pool, places.PoolField
	if b.details.Zone != "" {
		name, field = b.details.Zone, places.ZonesField
	}
	if name == "" && b.datacenter.OfSettings {
		b.spec.Location.Pool = &b.settings.Pool
		return nil
	}
	return b.Call(ctx, func(ctx context.Context, s *session.Session) error {
		pool, err := session.LookUpIn(ctx, s, &b.lookups.computes, b.datacenter.Ref.Value,
			func() (*places.Computes, error) { return places.ReadComputes(ctx, s, b.datacenter) },
			func(c *places.Computes) (types.ManagedObjectReference, error) { return c.Pool(name, field, b.meant) })
		b.spec.Location.Pool = &pool
		return err
	})
}

// checkVersion checks that hosts of the member's cluster have spec.hardware.version, because the VM is upgraded only after its clone.
func (b *cloneBuilder) checkVersion(ctx context.Context) error {
	wanted := b.details.Spec.Hardware.Version
	if wanted <= b.source.Version {
		return nil
	}
	return b.Call(ctx, func(ctx context.Context, s *session.Session) error {
		c, err := b.lookups.computesOf(ctx, s, b.datacenter)
		if err != nil {
			return err
		}
		owner, found := c.Owner[*b.spec.Location.Pool]
		if !found {
			return nil
		}
		ask := func() (*hardware.Upgrades, error) { return hardware.ReadUpgrades(ctx, s, owner) }
		b.upgrades, err = session.LookUpIn(ctx, s, &b.lookups.upgrades, owner.Value, ask, func(x *hardware.Upgrades) (*hardware.Upgrades, error) {
			if len(x.Versions) == 0 || slices.Contains(x.Versions, wanted) { // if vCenter lists no version, the upgrade itself shows whether the hosts have it
				return x, nil
			}
			return nil, vcfault.ForOperator(vcfault.ReasonNotSupported, "No host of %s can upgrade a VM to hardware version %d: set spec.hardware.version to %d or another that they have, or upgrade the hosts.",
				x.Cluster, wanted, x.Versions[len(x.Versions)-1])
		})
		return err
	})
}

// checkHostGroup checks that the member's cluster has the host group of the spec, because the VM-host rule is set only after the clone.
func (b *cloneBuilder) checkHostGroup(ctx context.Context) error {
	wanted, at := plan.RulesOf(b.details.Spec).HostGroupOf(b.action.Ordinal)
	if at < 0 {
		return nil
	}
	return b.Call(ctx, func(ctx context.Context, s *session.Session) error {
		c, err := b.lookups.computesOf(ctx, s, b.datacenter)
		if err != nil {
			return err
		}
		owner := c.Owner[*b.spec.Location.Pool]
		if owner.Type != "ClusterComputeResource" { // a standalone host: the step that sets the rule reports that there is no cluster
			return nil
		}
		return b.lookups.findHostGroup(ctx, s, owner, wanted)
	})
}

// fillStorage sets the clone's storage policy and its datastore: spec.placement.datastore, the datastore of the server's settings (in their
// datacenter), or the template's own. If the spec names no datastore and the policy does not allow the default, fillStorage takes one that the
// policy allows.
func (b *cloneBuilder) fillStorage(ctx context.Context) error {
	p := b.details.Spec.Placement
	if p.Datastore == "" && b.datacenter.OfSettings {
		b.spec.Location.Datastore = b.settings.Datastore
	}
	if p.Datastore == "" && p.StoragePolicy == "" {
		return nil
	}
	return b.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		b.pod, b.spec.Location.Profile, b.encrypt = nil, nil, nil
		if p.Datastore != "" {
			found, err := session.LookUpIn(ctx, s, &b.lookups.storage, b.datacenter.Ref.Value,
				func() (*places.Storage, error) { return places.ReadStorage(ctx, s, b.datacenter) },
				func(x *places.Storage) (*places.Object, error) { return x.Find(p.Datastore, b.meant) })
			if err != nil {
				return err
			}
			if found.Ref.Type == "StoragePod" {
				b.pod, b.spec.Location.Datastore = found, nil
			} else {
				b.spec.Location.Datastore = &found.Ref
			}
		}
		if p.StoragePolicy == "" {
			return nil
		}
		return b.fillPolicy(ctx, s)
	})
}

// fillPolicy sets spec.placement.storagePolicy on the clone. If the spec names no datastore, and the default one doesn't satisfy the policy or
// can't be used, fillPolicy chooses another. The default may be in maintenance (CAPV#3498), or, if it is the template's, not mounted on the
// hosts of the pool (CAPV#2134).
//
// vCenter refuses a policy that encrypts in a clone spec. The VM gets such a policy before its first power-on (CAPV#1146); until then its stamp
// records the policy.
func (b *cloneBuilder) fillPolicy(ctx context.Context, s *session.Session) error {
	at, p := &b.spec.Location, b.details.Spec.Placement
	allowed, err := b.lookups.policyOf(ctx, b.client, s, b.datacenter, p.StoragePolicy, "spec.placement.storagePolicy")
	if err != nil {
		return err
	}
	all, err := b.lookups.storageOf(ctx, s, b.datacenter)
	if err != nil {
		return err
	}
	b.compatible, at.Profile = allowed.Compatible, places.Profile(allowed.ID)
	if allowed.Encrypts {
		if b.details.Spec.Clone.Mode == v1alpha1.CloneLinked {
			return vcfault.ForOperator(vcfault.ReasonInvalidConfiguration, "The storage policy %q encrypts, and vCenter does not encrypt a linked clone, whose disks it shares with the template: set clone.mode: Full, or another spec.placement.storagePolicy.", p.StoragePolicy)
		}
		at.Profile, b.encrypt = nil, map[string]string{"": allowed.ID}
	}
	if b.pod != nil { // Storage DRS chooses
		return nil
	}
	return b.choosePolicyDatastore(ctx, s, allowed, all)
}

// choosePolicyDatastore keeps the default datastore if it satisfies the policy and can be used, and otherwise takes the best one that does. It
// never overrides the spec.
func (b *cloneBuilder) choosePolicyDatastore(ctx context.Context, s *session.Session, allowed *places.Policy, all *places.Storage) error {
	p, at := b.details.Spec.Placement, &b.spec.Location
	reached, err := b.lookups.reachOf(ctx, s, b.datacenter, *at.Pool)
	if err != nil {
		return err
	}
	fits := allowed.Fitting(all, reached)
	taken := b.source.Datastores(all)
	if at.Datastore != nil {
		taken = []types.ManagedObjectReference{*at.Datastore}
	}
	misfit := func(ref types.ManagedObjectReference) bool {
		return !allowed.Compatible[ref.Value] || p.Datastore == "" && !slices.ContainsFunc(fits, func(t *places.Object) bool { return t.Ref == ref })
	}
	if len(taken) > 0 && !slices.ContainsFunc(taken, misfit) {
		return nil
	}
	var names []string
	for _, t := range fits {
		names = append(names, t.Path)
	}
	switch {
	case len(fits) == 0:
		return vcfault.ForOperator(vcfault.ReasonStoragePolicyIncompatible, "No datastore that the members' hosts have and can use now satisfies the storage policy %q: give them one that does, or set another spec.placement.storagePolicy.", p.StoragePolicy)
	case p.Datastore != "":
		return vcfault.ForOperator(vcfault.ReasonStoragePolicyIncompatible, "The datastore %q does not satisfy the storage policy %q: set spec.placement.datastore to one of %s, or remove it.", p.Datastore, p.StoragePolicy, vcfault.Listing(names))
	}
	at.Datastore = &slices.MinFunc(fits, places.Best).Ref
	return nil
}

// fillAdapters replaces the template's adapters by one adapter for each of spec.networks, in the order of the spec.
//
// The adapters go into CloneSpec.config, because [doc] RelocateSpec.deviceChange only changes the backings of existing adapters. vCenter assigns
// their MAC addresses during the clone, so the guest's network configuration is written later (prepare.go).
func (b *cloneBuilder) fillAdapters(ctx context.Context) error {
	if len(b.details.Spec.Networks) == 0 {
		return nil
	}
	b.backings = nil
	for i := range b.details.Spec.Networks {
		backing, err := b.backingOf(ctx, b.details.Spec.Networks[i].Network)
		if err != nil {
			return err
		}
		b.backings = append(b.backings, backing)
	}
	b.spec.Config.DeviceChange = hardware.ReplaceNICs(b.source.NICs(), b.backings, 0)
	return nil
}

// checkPCIDevices checks that the server allows the devices of spec.hardware. They are added after the clone (prepare.go).
func (b *cloneBuilder) checkPCIDevices(_ context.Context) error {
	for _, device := range b.details.Spec.Hardware.PCIDevices {
		if !Patterns(b.cfg.PCIDevices).allow(device) {
			return vcfault.ForOperator(vcfault.ReasonInvalidConfiguration, "The server does not allow the device %q of spec.hardware.pciDevices: remove it, or start the server with --pci-devices that match it.", device)
		}
	}
	return nil
}

// fillGuest sets the metadata and user data of the member's guest. Network adapters have no MAC addresses yet, so the network configuration is
// written later (prepare.go).
//
// With a customization specification, cloud-init must find no data under its own keys in guestinfo: otherwise it ignores vCenter's guest
// customization ([doc] DataSourceVMware takes the first of envvars, guestinfo and imc that has data). The metadata then gets another key, for
// scripts: vmtoolsd --cmd "info-get guestinfo.vmgroup.metadata".
//
// A template's vApp properties hide guestinfo from cloud-init, which looks for an OVF environment first (canonical/cloud-init#5912 changes
// that). The guest would get neither user data and addresses nor its host name and instance-id. So a clone that is configured by guestinfo
// drops the vApp properties, as CAPV's clones do since kubernetes-sigs/cluster-api-provider-vsphere#2014.
//
// A template that was made from a member, or from another VM with the metadata of its guest, has that guest's user data, with its secrets: cloud-init would
// run it in the clone, because the instance-id is new. So whatever the server writes and this clone doesn't set is removed from it. A template without
// metadata keeps user data of its own, which is then meant for its clones.
func (b *cloneBuilder) fillGuest(_ context.Context) error {
	if b.plain {
		return nil
	}
	key := guest.MetadataKey
	var options []types.BaseOptionValue
	if b.details.Spec.CustomizationSpec != "" {
		key = guest.OwnMetadataKey
	} else if b.source.VApp {
		b.spec.Config.VAppConfigRemoved = types.NewBool(true)
	}
	metadata, err := guest.Metadata(key, b.ref, b.action, b.id, nil, nil)
	if err != nil {
		return err
	}
	options = append(options, metadata...)
	switch text := b.details.UserData; {
	case text.IsIgnition():
		options = append(options, guest.Encoded(guest.IgnitionKey, text)...)
	case text != "":
		options = append(options, guest.Encoded(guest.UserDataKey, text)...)
	}
	options = append(b.unset(options), options...)
	b.spec.Config.ExtraConfig = append(b.spec.Config.ExtraConfig, options...)
	return nil
}

// unset returns the entries that remove from the clone what it must not inherit: the keys of guests that are not among those that are set, and, of a template
// that was made from a deployed one, the record of that.
func (b *cloneBuilder) unset(set []types.BaseOptionValue) (options []types.BaseOptionValue) {
	hidden := []string{guest.MetadataKey, guest.UserDataKey} // from cloud-init, with a customization specification
	for _, key := range guest.Keys() {
		isSet := slices.ContainsFunc(set, func(o types.BaseOptionValue) bool { return o.GetOptionValue().Key == key })
		if !isSet && (b.source.Former.Configured || b.details.Spec.CustomizationSpec != "" && slices.Contains(hidden, key)) {
			options = append(options, guest.Unset(key)...)
		}
	}
	if b.source.Former.Deployed {
		options = append(options, &types.OptionValue{Key: library.DeployedKey, Value: ""})
	}
	return options
}

// fillOwner records the VM's owner in its notes, and in managedBy if the extension is registered.
func (b *cloneBuilder) fillOwner(ctx context.Context) error {
	if b.plain {
		return nil
	}
	b.spec.Config.Annotation = noteOf(b.ref, b.action.Key, b.cfg.ClusterID)
	return b.Call(ctx, func(ctx context.Context, s *session.Session) error {
		found, err := b.lookups.extension(ctx, s)
		if err != nil || found == nil {
			return err
		}
		b.spec.Config.ManagedBy = &types.ManagedByInfo{ExtensionKey: role.ExtensionKey, Type: managedType}
		if len(found.ManagedEntityInfo) > 0 {
			b.spec.Config.ManagedBy.Type = found.ManagedEntityInfo[0].Type
		}
		return nil
	})
}

// fillCustomization makes vCenter customize the guest at its first power-on, with the specification that
// spec.customizationSpec names, the member's own name, and the addresses of spec.networks.
func (b *cloneBuilder) fillCustomization(ctx context.Context) error {
	name := b.details.Spec.CustomizationSpec
	if name == "" {
		return nil
	}
	return b.Call(ctx, func(ctx context.Context, s *session.Session) error {
		kept, err := b.lookups.customs.Get(ctx, s, name, knownFor, func() (*types.CustomizationSpec, error) { return guest.ReadCustomization(ctx, s, name) })
		if err != nil {
			return err
		}
		spec := *kept // other clones share kept: replace fields of the copy, don't write through its pointers
		if spec.Identity, err = guest.Identify(name, b.action.Key, spec.Identity); err != nil {
			return err
		}
		if err = b.mapAdapters(name, &spec); err != nil {
			return err
		}
		b.spec.Customization = &spec
		return nil
	})
}

// mapAdapters sets the addresses of each adapter in the customization specification. Without spec.networks, the specification keeps its own
// settings, which must be as many as the template has adapters.
func (b *cloneBuilder) mapAdapters(name string, spec *types.CustomizationSpec) error {
	networks := b.details.Spec.Networks
	if len(networks) == 0 {
		if has, want := len(b.source.NICs()), len(spec.NicSettingMap); has != want {
			return vcfault.ForOperator(vcfault.ReasonCustomizationSpecUnfit, "The customization specification %q is for %d network adapters, and the template %q has %d: change one of them, or set spec.networks.",
				name, want, b.details.Spec.Template, has)
		}
		return nil
	}
	guest.MapAdapters(spec, b.details)
	return nil
}

// checkTags checks that the tags of the spec exist.
func (b *cloneBuilder) checkTags(ctx context.Context) error {
	wanted := b.details.Spec.Tags
	if len(wanted) == 0 {
		return nil
	}
	err := b.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
		return b.tagCache.Check(ctx, rs, wanted)
	})
	if errors.Is(err, session.ErrTagGone) {
		b.tagCache.Forget()
		return vcfault.ForRetry(vcfault.ReasonGone, "A tag or its category is no longer in vCenter; the server reads the tags again.")
	}
	return err
}

// fillDatastore asks Storage DRS to recommend a datastore, if the clone's target is a datastore cluster. It runs after the other steps; the
// request has neither user data nor a customization. [doc] StoragePlacementSpec: vm, folder, cloneName and cloneSpec describe a clone.
//
// The clone then names that datastore like any other. ApplyStorageDrsRecommendation_Task would clone as well, but is a different kind of task.
// Clones that ask at the same time may get the same datastore.
func (b *cloneBuilder) fillDatastore(ctx context.Context) error {
	if b.pod == nil {
		b.fillDisks()
		return nil
	}
	if b.pod.DRSOff() {
		return vcfault.ForOperator(vcfault.ReasonDatastoreNotFound, "Storage DRS is off for the datastore cluster %s, so it recommends no datastore: turn it on, or set spec.placement.datastore to one of the datastores in it.", b.pod.Path)
	}
	location := b.spec.Location
	location.DeviceChange, location.Disk = nil, nil
	vm, folder := inventory.VMRef(b.clone.Template), inventory.FolderRef(b.clone.Folder)
	spec := types.StoragePlacementSpec{
		Type: string(types.StoragePlacementSpecPlacementTypeClone), Vm: &vm, Folder: &folder, CloneName: b.action.Key,
		CloneSpec:                 &types.VirtualMachineCloneSpec{Location: location, Snapshot: b.spec.Snapshot},
		DisallowPrerequisiteMoves: types.NewBool(true), // the server would not carry them out
	}
	return b.Call(ctx, func(ctx context.Context, s *session.Session) error {
		all, err := places.RecommendDatastores(ctx, s, b.pod, spec)
		if err != nil {
			return err
		}
		for _, to := range all {
			if b.compatible == nil || b.compatible[to.Value] {
				b.spec.Location.Datastore = &to
				b.fillDisks()
				return nil
			}
		}
		return vcfault.ForOperator(vcfault.ReasonStoragePolicyIncompatible, "None of the datastores that the datastore cluster %s recommends satisfies the storage policy %q: name others in spec.placement.", b.pod.Path, b.details.Spec.Placement.StoragePolicy)
	})
}

// fillDisks sets the storage policy on the disks, because RelocateSpec.profile applies to the VM's home directory alone ([doc]). Each listed disk
// also needs its datastore and move type; without them a linked clone would become a full one.
func (b *cloneBuilder) fillDisks() {
	at := &b.spec.Location
	if at.Disk = nil; len(at.Profile) == 0 {
		return
	}
	for _, disk := range b.source.Disks() {
		to := at.Datastore
		if to == nil {
			to = source.DatastoreOf(disk)
		}
		if to != nil {
			at.Disk = append(at.Disk, types.VirtualMachineRelocateSpecDiskLocator{
				DiskId: disk.Key, Datastore: *to, DiskMoveType: at.DiskMoveType, Profile: at.Profile})
		}
	}
}

// fillNewDisks adds spec.disks to the clone, and grows the template's first disk (spec.rootDisk). Both changes are in the clone spec, like the
// stamp that records them, so a member never exists with only some of its disks. Persistent disks are attached later; their units stay free.
func (b *cloneBuilder) fillNewDisks(ctx context.Context) error {
	spec, c := b.details.Spec, b.spec.Config
	b.given = nil
	if spec.RootDisk != nil {
		root := disks.First("", b.source.Devices)
		if root == nil {
			return vcfault.ForOperator(vcfault.ReasonTemplateUnfit, "The template %q has no disk that could grow: remove spec.rootDisk.", spec.Template)
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
	wanted, err := b.wantedDisks(ctx, spec.Disks)
	if err != nil {
		return err
	}
	for i := range wanted {
		if err := b.encryptLater(&wanted[i]); err != nil {
			return err
		}
	}
	changes, records, err := disks.Add(b.source.Devices, wanted, "The template "+spec.Template)
	if err != nil {
		return err
	}
	for i, w := range wanted {
		if !w.Disk.Persistent {
			b.given, c.DeviceChange = append(b.given, records[i]), append(c.DeviceChange, changes[i])
		}
	}
	enable := disks.EnableUUID
	c.ExtraConfig = append(c.ExtraConfig, &enable)
	return nil
}

// encryptLater leaves a policy that encrypts out of the clone spec of a new disk, and records it for the preparation.
func (b *cloneBuilder) encryptLater(w *disks.Addition) error {
	switch {
	case w.Encrypts == "":
		return nil
	case w.Disk.Persistent:
		return vcfault.ForOperator(vcfault.ReasonInvalidConfiguration, "The storage policy of the persistent disk %s encrypts, and vCenter attaches it only to a VM that is encrypted already: give the disk another storagePolicy in spec.disks.", w.Disk.Name)
	case b.encrypt == nil:
		return vcfault.ForOperator(vcfault.ReasonInvalidConfiguration, "The storage policy of the disk %s encrypts, and vCenter encrypts no disk of a VM that is not encrypted itself: set spec.placement.storagePolicy to one that encrypts, or give the disk another storagePolicy in spec.disks.", w.Disk.Name)
	}
	b.encrypt[w.Disk.Name], w.Profile = w.Encrypts, nil
	return nil
}

// fillHost chooses the host in a cluster without DRS. If no host can take the clone, vCenter chooses, and reports why it fails.
func (b *cloneBuilder) fillHost(ctx context.Context) error {
	return b.Call(ctx, func(ctx context.Context, s *session.Session) error {
		c, err := b.lookups.computesOf(ctx, s, b.datacenter)
		if err != nil {
			return err
		}
		cluster := c.Owner[*b.spec.Location.Pool]
		version := b.details.Spec.Hardware.Version
		if !b.inventory.Unplaced(cluster.Value) && !b.upgrades.Mixed(version) { // DRS chooses a host at power-on
			return nil
		}
		all, err := b.lookups.hosts.Get(ctx, s, cluster.Value, knownFor, func() ([]hosts.Host, error) { return hosts.Read(ctx, s, cluster) })
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(slices.Clone(all), func(h hosts.Host) bool { return !b.upgrades.Have(version, h.Ref) })
		b.inFlight.Place(b.ref.UID, b.action.Key, func(on map[string]int) *types.ManagedObjectReference {
			for host, n := range b.inventory.MembersByHost(b.ref.UID) {
				on[host] += n
			}
			b.spec.Location.Host = b.capacity.Choose(all, on, b.spec.Location.Datastore, hardware.AddedNetworks(b.spec.Config.DeviceChange))
			return b.spec.Location.Host
		})
		return nil
	})
}

// begin starts the clone, and waits for it to end.
func (b *cloneBuilder) begin(ctx context.Context) (*types.TaskInfo, error) {
	ends := func() {}
	defer func() { ends() }()
	return b.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		spec, config := b.spec, *b.spec.Config
		config.ExtraConfig = append([]types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: b.stamp(b.cfg.ClusterID, s.UUID).Encode()}}, config.ExtraConfig...)
		spec.Config = &config
		if b.source.HasTPM() && s.Has(session.TPMPolicy) {
			spec.TpmProvisionPolicy = string(types.VirtualMachineCloneSpecTpmProvisionPolicyReplace)
		}
		res, err := methods.CloneVM_Task(ctx, s.Vim, &types.CloneVM_Task{This: inventory.VMRef(b.clone.Template), Folder: inventory.FolderRef(b.clone.Folder), Name: b.action.Key, Spec: spec})
		if err == nil {
			task = res.Returnval
			ends = b.clones.Begins(task.Value, b.ref.UID)
		}
		return task, err
	})
}

// stamp returns the stamp of the new VM.
func (b *cloneBuilder) stamp(cluster, vcenter string) stamp.Stamp {
	return stamp.Stamp{
		Cluster: cluster, Namespace: b.ref.Namespace, Name: b.ref.Name, UID: b.ref.UID,
		Generation: b.action.Generation, Ordinal: b.action.Ordinal, Revision: b.clone.Revision, RevisionAlgorithm: plan.RevisionAlgorithm,
		InstanceUUID: b.id, VCenter: vcenter, Created: stamp.Time(time.Now()), Fingerprint: b.clone.Fingerprint, Template: b.details.Spec.Template,
		Home: b.details.Home, Addresses: b.details.AddressText, Prepared: plan.PreparationDue(b.details.Prepared, b.encrypt),
		Disks: disks.Keys(b.source.Devices), Given: plan.DiskText(b.given), Standby: b.clone.Standby,
		Allocation: plan.AllocationOf(b.details.Spec), ClonedFor: plan.ClonedFor(b.details.Spec, b.clone.Revision, b.clone.Fingerprint),
	}
}
