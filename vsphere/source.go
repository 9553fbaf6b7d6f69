// This file is the source of a clone: a template, or a snapshot of one.

package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// source is the configuration that a member is cloned from: that of a template, or of a snapshot of a template. It is immutable.
type source struct {
	// perSocket is the number of cores per socket; 0 if vCenter chooses it at power-on (autoCores), or does not show it. vCenter chooses until it is set
	// (inventory.Machine.AutoCores).
	perSocket int32
	autoCores bool
	devices   []types.BaseVirtualDevice
	// vApp reports whether the template has vApp properties, or a transport for them.
	vApp bool
	// former is what the template shows about the VM that it was made from.
	former Former
	// firmware is "bios" or "efi".
	firmware string
	// version is the virtual hardware version; 0 if unknown.
	version int32
	// file is the path of the .vmx file: "[datastore] directory/file.vmx".
	file string
	// cpu and memory have the reservations, limits and shares. locked reports that all memory is reserved.
	cpu, memory types.ResourceAllocationInfo
	locked      bool
	// snapshots are the snapshots of a template; nil if there are none.
	snapshots *types.VirtualMachineSnapshotInfo
}

// sourceKey identifies a source. A template whose fingerprint has changed has other disks, and perhaps other snapshots.
type sourceKey struct {
	ref         types.ManagedObjectReference
	fingerprint string
}

// readSource reads a template, or a snapshot of one, which has the same config ([doc] VirtualMachineSnapshot.config).
func readSource(ctx context.Context, s *session.Session, ref types.ManagedObjectReference) (*source, error) {
	x := new(source)
	all := x.properties()
	if ref.Type == session.VMType {
		all = append(all, session.Taking("snapshot", func(v types.VirtualMachineSnapshotInfo) { x.snapshots = &v }))
	}
	if _, err := session.ReadProps(ctx, s, ref, all...); err != nil {
		return nil, err
	}
	if x.autoCores {
		x.perSocket = 0
	}
	return x, nil
}

// properties are those of a template and of a snapshot.
func (x *source) properties() session.Properties {
	return append(x.former.Properties(),
		session.To("config.hardware.autoCoresPerSocket", &x.autoCores),
		session.To("config.hardware.numCoresPerSocket", &x.perSocket),
		session.Devices(&x.devices),
		HasVAppProperties(&x.vApp),
		session.To("config.firmware", &x.firmware),
		session.Taking("config.version", func(v string) { x.version = HardwareVersion(v) }),
		session.To("config.files.vmPathName", &x.file),
		session.To("config.cpuAllocation", &x.cpu),
		session.To("config.memoryAllocation", &x.memory),
		session.To("config.memoryReservationLockedToMax", &x.locked),
	)
}

// HasVAppProperties is the property that shows whether the guest of a VM finds an OVF environment.
func HasVAppProperties(has *bool) session.Property {
	return session.Taking("config.vAppConfig", func(c types.VmConfigInfo) { *has = len(c.Property) > 0 || len(c.OvfEnvironmentTransport) > 0 })
}

// Former is what the extraConfig of a template shows about the VM that it was made from.
type Former struct {
	// Configured reports whether the template has a member's stamp, or the metadata of one guest. Then its user data is of that guest.
	Configured bool
	// deployed reports whether it has the record of a deployed template.
	deployed bool
	// UserData reports whether it has user data or an Ignition config.
	UserData bool
	// Stamp is its stamp; zero if it has none that can be read.
	Stamp stamp.Stamp
}

// Properties are the entries of extraConfig that show it.
func (x *Former) Properties() session.Properties {
	all := session.Properties{
		option(stamp.Key, func(text string) { x.Configured = true; x.Stamp, _ = stamp.Decode(text) }),
		option(deployedKey, func(string) { x.deployed = true }),
	}
	for _, key := range guest.Keys() {
		all = append(all, option(key, func(string) {
			switch key {
			case guest.MetadataKey, guest.OwnMetadataKey:
				x.Configured = true
			case guest.UserDataKey, guest.IgnitionKey:
				x.UserData = true
			}
		}))
	}
	return all
}

// option is the text at a key of extraConfig, which take gets unless it is empty.
func option(key string, take func(text string)) session.Property {
	return session.Taking(session.OptionPath(key), func(v types.OptionValue) {
		if text, _ := v.Value.(string); text != "" {
			take(text)
		}
	})
}

// cores returns the cores per socket to set in a clone. It is nil, so that the clone inherits the source's, if those divide the number of CPUs;
// otherwise it is the largest number that divides both. vCenter refuses a number of CPUs that is no multiple of the cores per socket
// (VirtualMachineConfigSpec.numCoresPerSocket).
func (x *source) cores(cpu int32) *int32 { return dividing(x.perSocket, cpu) }

// dividing returns the largest number of cores per socket that divides perSocket and cpu; nil if perSocket divides cpu, or is unknown.
func dividing(perSocket, cpu int32) *int32 {
	if perSocket < 1 || cpu%perSocket == 0 {
		return nil
	}
	for perSocket > 0 {
		cpu, perSocket = perSocket, cpu%perSocket
	}
	return &cpu
}

// nics returns the network adapters.
func (x *source) nics() []types.BaseVirtualDevice { return NICsIn(x.devices) }

// hasTPM reports whether the source has a virtual TPM. vCenter copies the secrets of a template's TPM to each clone, unless the clone asks for a
// new TPM (vim25, tpmProvisionPolicy; a recorded 8.0.1 has vpxd.clone.tpmProvisionPolicy = copy).
func (x *source) hasTPM() bool { return HasTPM(x.devices) }

// disks returns the virtual disks.
func (x *source) disks() []*types.VirtualDisk { return disks.In(x.devices) }

// datastores returns the datastores of the source's .vmx file and disks.
func (x *source) datastores(all *places.Storage) (own []types.ManagedObjectReference) {
	var path object.DatastorePath
	if path.FromString(x.file) {
		if t := all.Called(path.Datastore); t != nil {
			own = append(own, t.Ref)
		}
	}
	for _, disk := range x.disks() {
		if at := datastoreOf(disk); at != nil && !slices.Contains(own, *at) {
			own = append(own, *at)
		}
	}
	return own
}

// datastoreOf returns the datastore of a disk; nil if vCenter does not show it.
func datastoreOf(disk *types.VirtualDisk) *types.ManagedObjectReference {
	if backing, is := disk.Backing.(types.BaseVirtualDeviceFileBackingInfo); is {
		return backing.GetVirtualDeviceFileBackingInfo().Datastore
	}
	return nil
}

// snapshot is one snapshot of a template. path has the names of its ancestors and its own, separated by '/'.
type snapshot struct {
	name, path string
	ref        types.ManagedObjectReference
}

// snapshotsIn lists a template's snapshots.
func snapshotsIn(snapshots *types.VirtualMachineSnapshotInfo) []snapshot {
	if snapshots == nil {
		return nil
	}
	var all []snapshot
	var walk func(prefix string, trees []types.VirtualMachineSnapshotTree)
	walk = func(prefix string, trees []types.VirtualMachineSnapshotTree) {
		for _, t := range trees {
			name := naming.Unescape(t.Name)
			all = append(all, snapshot{name, prefix + name, t.Snapshot})
			walk(prefix+name+"/", t.ChildSnapshotList)
		}
	}
	walk("", snapshots.RootSnapshotList)
	return all
}

// findSnapshot returns the snapshot that spec.clone names by name or path, or the current one. template is the template's name for the message.
func findSnapshot(snapshots *types.VirtualMachineSnapshotInfo, clone v1alpha1.Clone, template string) (types.ManagedObjectReference, error) {
	all := snapshotsIn(snapshots)
	var paths []string
	for _, t := range all {
		paths = append(paths, t.path)
	}
	none := types.ManagedObjectReference{}
	instead := "set clone.mode: Full"
	if clone.Mode != v1alpha1.CloneLinked {
		instead = "remove spec.clone.snapshot"
	}
	if len(all) == 0 {
		return none, vcfault.ForOperator(vcfault.ReasonSnapshotNotFound, "The template %q has no snapshot: take one (while it is a VM, because vCenter takes none of a template), or %s.", template, instead)
	}
	if clone.Snapshot == "" {
		if snapshots.CurrentSnapshot == nil {
			return none, vcfault.ForOperator(vcfault.ReasonSnapshotNotFound, "The template %q has no current snapshot: set spec.clone.snapshot to one of %s, or set clone.mode: Full.", template, vcfault.Listing(paths))
		}
		return *snapshots.CurrentSnapshot, nil
	}
	fits := slices.DeleteFunc(slices.Clone(all), func(t snapshot) bool { return t.path != clone.Snapshot })
	if len(fits) == 0 {
		fits = slices.DeleteFunc(slices.Clone(all), func(t snapshot) bool { return t.name != clone.Snapshot })
	}
	switch len(fits) {
	case 1:
		return fits[0].ref, nil
	case 0:
		return none, vcfault.ForOperator(vcfault.ReasonSnapshotNotFound, "The template %q has no snapshot %q: take it, set spec.clone.snapshot to one of %s, or %s.", template, clone.Snapshot, vcfault.Listing(paths), instead)
	}
	paths = nil
	for _, t := range fits {
		paths = append(paths, t.path)
	}
	return none, vcfault.ForOperator(vcfault.ReasonSnapshotAmbiguous, "The template %q has %d snapshots %q: set spec.clone.snapshot to the path of one of %s (and rename one where two have the same path).",
		template, len(fits), clone.Snapshot, vcfault.Listing(paths))
}
