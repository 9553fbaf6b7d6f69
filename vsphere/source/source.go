// Package source reads what members are cloned from: a template, or a snapshot of one.
package source

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/library"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Source is the configuration that a member is cloned from: that of a template, or of a snapshot of a template. It is immutable.
type Source struct {
	// PerSocket is the number of cores per socket; 0 if vCenter chooses it at power-on (autoCores), or does not show it. vCenter chooses until it is set
	// (inventory.Machine.AutoCores).
	PerSocket int32
	autoCores bool
	Devices   []types.BaseVirtualDevice
	// VApp reports whether the template has vApp properties, or a transport for them.
	VApp bool
	// Former is what the template shows about the VM that it was made from.
	Former Former
	// Firmware is "bios" or "efi".
	Firmware string
	// Version is the virtual hardware version; 0 if unknown.
	Version int32
	// file is the path of the .vmx file: "[datastore] directory/file.vmx".
	file string
	// CPU and Memory have the reservations, limits and shares. Locked reports that all memory is reserved.
	CPU, Memory types.ResourceAllocationInfo
	Locked      bool
	// Snapshots are the snapshots of a template; nil if there are none.
	Snapshots *types.VirtualMachineSnapshotInfo
}

// Key identifies a source. A template whose fingerprint has changed has other disks, and perhaps other snapshots.
type Key struct {
	Ref         types.ManagedObjectReference
	Fingerprint string
}

// Read reads a template, or a snapshot of one, which has the same config ([doc] VirtualMachineSnapshot.config).
func Read(ctx context.Context, s *session.Session, ref types.ManagedObjectReference) (*Source, error) {
	x := new(Source)
	all := x.Properties()
	if ref.Type == session.VMType {
		all = append(all, session.Taking("snapshot", func(v types.VirtualMachineSnapshotInfo) { x.Snapshots = &v }))
	}
	if _, err := session.ReadProps(ctx, s, ref, all...); err != nil {
		return nil, err
	}
	if x.autoCores {
		x.PerSocket = 0
	}
	return x, nil
}

// Properties are those of a template and of a snapshot.
func (x *Source) Properties() session.Properties {
	return append(x.Former.properties(),
		session.To("config.hardware.autoCoresPerSocket", &x.autoCores),
		session.To("config.hardware.numCoresPerSocket", &x.PerSocket),
		session.Devices(&x.Devices),
		hasVAppProperties(&x.VApp),
		session.To("config.firmware", &x.Firmware),
		session.Taking("config.version", func(v string) { x.Version = hardware.Version(v) }),
		session.To("config.files.vmPathName", &x.file),
		session.To("config.cpuAllocation", &x.CPU),
		session.To("config.memoryAllocation", &x.Memory),
		session.To("config.memoryReservationLockedToMax", &x.Locked),
	)
}

// hasVAppProperties is the property that shows whether the guest of a VM finds an OVF environment.
func hasVAppProperties(has *bool) session.Property {
	return session.Taking("config.vAppConfig", func(c types.VmConfigInfo) { *has = len(c.Property) > 0 || len(c.OvfEnvironmentTransport) > 0 })
}

// Former is what the extraConfig of a template shows about the VM that it was made from.
type Former struct {
	// Configured reports whether the template has a member's stamp, or the metadata of one guest. Then its user data is of that guest.
	Configured bool
	// Deployed reports whether it has the record of a deployed template.
	Deployed bool
	// UserData reports whether it has user data or an Ignition config.
	UserData bool
	// Stamp is its stamp; zero if it has none that can be read.
	Stamp stamp.Stamp
}

// properties are the entries of extraConfig that show it.
func (x *Former) properties() session.Properties {
	all := session.Properties{
		option(stamp.Key, func(text string) { x.Configured = true; x.Stamp, _ = stamp.Decode(text) }),
		option(library.DeployedKey, func(string) { x.Deployed = true }),
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

// Cores returns the Cores per socket to set in a clone. It is nil, so that the clone inherits the source's, if those divide the number of CPUs;
// otherwise it is the largest number that divides both. vCenter refuses a number of CPUs that is no multiple of the Cores per socket
// (VirtualMachineConfigSpec.numCoresPerSocket).
func (x *Source) Cores(cpu int32) *int32 { return hardware.Cores(x.PerSocket, cpu) }

// NICs returns the network adapters.
func (x *Source) NICs() []types.BaseVirtualDevice { return hardware.NICsIn(x.Devices) }

// HasTPM reports whether the source has a virtual TPM. vCenter copies the secrets of a template's TPM to each clone, unless the clone asks for a
// new TPM (vim25, tpmProvisionPolicy; a recorded 8.0.1 has vpxd.clone.tpmProvisionPolicy = copy).
func (x *Source) HasTPM() bool { return hardware.HasTPM(x.Devices) }

// Disks returns the virtual Disks.
func (x *Source) Disks() []*types.VirtualDisk { return disks.In(x.Devices) }

// Datastores returns the Datastores of the source's .vmx file and disks.
func (x *Source) Datastores(all *places.Storage) (own []types.ManagedObjectReference) {
	var path object.DatastorePath
	if path.FromString(x.file) {
		if t := all.Called(path.Datastore); t != nil {
			own = append(own, t.Ref)
		}
	}
	for _, disk := range x.Disks() {
		if at := DatastoreOf(disk); at != nil && !slices.Contains(own, *at) {
			own = append(own, *at)
		}
	}
	return own
}

// DatastoreOf returns the datastore of a disk; nil if vCenter does not show it.
func DatastoreOf(disk *types.VirtualDisk) *types.ManagedObjectReference {
	if backing, is := disk.Backing.(types.BaseVirtualDeviceFileBackingInfo); is {
		return backing.GetVirtualDeviceFileBackingInfo().Datastore
	}
	return nil
}

// snapshot is one snapshot of a template. path has the names of its ancestors and its own, separated by '/'. text names it alone: it is the path,
// or the type and moRef if others have the path.
type snapshot struct {
	name, path, text string
	ref              types.ManagedObjectReference
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
			all = append(all, snapshot{name: name, path: prefix + name, ref: t.Snapshot})
			walk(prefix+name+"/", t.ChildSnapshotList)
		}
	}
	walk("", snapshots.RootSnapshotList)
	times := map[string]int{}
	for i := range all {
		times[all[i].path]++
	}
	for i := range all {
		if all[i].text = all[i].path; times[all[i].path] > 1 {
			all[i].text = all[i].ref.String()
		}
	}
	return all
}

// FindSnapshot returns the snapshot that spec.clone names by its name, its path, or its type and moRef, or the current one. template is the template's name for the message.
func FindSnapshot(snapshots *types.VirtualMachineSnapshotInfo, clone v1alpha1.Clone, template string) (types.ManagedObjectReference, error) {
	all := snapshotsIn(snapshots)
	texts := func(of []snapshot) string {
		var names []string
		for _, t := range of {
			names = append(names, t.text)
		}
		return vcfault.Listing(names)
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
			return none, vcfault.ForOperator(vcfault.ReasonSnapshotNotFound, "The template %q has no current snapshot: set spec.clone.snapshot to one of %s, or set clone.mode: Full.", template, texts(all))
		}
		return *snapshots.CurrentSnapshot, nil
	}
	var fits []snapshot
	for _, is := range []func(t *snapshot) bool{
		func(t *snapshot) bool { return t.ref.String() == clone.Snapshot },
		func(t *snapshot) bool { return t.path == clone.Snapshot },
		func(t *snapshot) bool { return t.name == clone.Snapshot },
	} {
		if len(fits) == 0 {
			fits = slices.DeleteFunc(slices.Clone(all), func(t snapshot) bool { return !is(&t) })
		}
	}
	switch len(fits) {
	case 1:
		return fits[0].ref, nil
	case 0:
		return none, vcfault.ForOperator(vcfault.ReasonSnapshotNotFound, "The template %q has no snapshot %q: take it, set spec.clone.snapshot to one of %s, or %s.", template, clone.Snapshot, texts(all), instead)
	}
	return none, vcfault.ForOperator(vcfault.ReasonSnapshotAmbiguous, "The template %q has %d snapshots %q: set spec.clone.snapshot to one of %s.",
		template, len(fits), clone.Snapshot, texts(fits))
}
