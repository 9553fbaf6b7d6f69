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
	// perSocket is the number of cores per socket; 0 if vCenter chooses it at power-on, or does not show it.
	perSocket int32
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

const (
	// vAppPath is the property that HasVAppProperties reads.
	vAppPath = "config.vAppConfig"
	// autoCoresPath reports whether vCenter chooses the cores per socket, as it does until they are set (inventory.Machine.AutoCores).
	autoCoresPath = "config.hardware.autoCoresPerSocket"
)

// readSource reads a template, or a snapshot of one, which has the same config ([doc] VirtualMachineSnapshot.config).
func readSource(ctx context.Context, s *session.Session, ref types.ManagedObjectReference) (*source, error) {
	paths := []string{"config.hardware.numCoresPerSocket", autoCoresPath, "config.hardware.device", "config.files.vmPathName", "config.version", "config.firmware", vAppPath,
		"config.cpuAllocation", "config.memoryAllocation", "config.memoryReservationLockedToMax"}
	paths = append(paths, FormerPaths()...)
	if ref.Type == session.VMType {
		paths = append(paths, "snapshot")
	}
	o, err := session.ReadProps(ctx, s, ref, paths...)
	if err != nil {
		return nil, err
	}
	x := &source{
		perSocket: session.Prop[int32](o, "config.hardware.numCoresPerSocket"),
		devices:   session.Devices(o),
		vApp:      HasVAppProperties(o),
		former:    FormerOf(o),
		firmware:  session.Prop[string](o, "config.firmware"),
		version:   HardwareVersion(session.Prop[string](o, "config.version")),
		file:      session.Prop[string](o, "config.files.vmPathName"),
		cpu:       session.Prop[types.ResourceAllocationInfo](o, "config.cpuAllocation"),
		memory:    session.Prop[types.ResourceAllocationInfo](o, "config.memoryAllocation"),
		locked:    session.Prop[bool](o, "config.memoryReservationLockedToMax"),
	}
	if session.Prop[bool](o, autoCoresPath) {
		x.perSocket = 0
	}
	if snapshots, has := session.LookUp[types.VirtualMachineSnapshotInfo](o, "snapshot"); has {
		x.snapshots = &snapshots
	}
	return x, nil
}

// HasVAppProperties reports whether the guest of a VM, whose config.vAppConfig was read, finds an OVF environment.
func HasVAppProperties(o session.Object) bool {
	c := session.Prop[types.VmConfigInfo](o, vAppPath)
	return len(c.Property) > 0 || len(c.OvfEnvironmentTransport) > 0
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

// FormerPaths returns the properties that FormerOf reads: entries of extraConfig, by their keys.
func FormerPaths() []string {
	paths := []string{stamp.Path, DeployedPath}
	for _, key := range guest.Keys() {
		paths = append(paths, `config.extraConfig["`+key+`"]`)
	}
	return paths
}

// FormerOf returns what the properties of a template show about the VM that it was made from.
func FormerOf(o session.Object) (x Former) {
	for _, option := range session.Every[types.OptionValue](o) {
		text, _ := option.Value.(string)
		switch {
		case text == "":
		case option.Key == stamp.Key:
			x.Configured = true
			x.Stamp, _ = stamp.Decode(text)
		case option.Key == deployedKey:
			x.deployed = true
		case option.Key == guest.MetadataKey || option.Key == guest.OwnMetadataKey:
			x.Configured = true
		case option.Key == guest.UserDataKey || option.Key == guest.IgnitionKey:
			x.UserData = true
		}
	}
	return x
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
