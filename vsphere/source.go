package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// source is what a member is cloned from: a template as it is, or as it was when a snapshot was taken. It is
// immutable.
type source struct {
	// perSocket are the cores per socket; 0 if vCenter chooses them at power-on, or does not say.
	perSocket int32
	devices   []types.BaseVirtualDevice
	// vApp reports whether it has vApp properties, or a transport for them.
	vApp bool
	// file is the .vmx file: "[datastore] directory/file.vmx".
	file string
	// snapshots are those of a template; nil if there are none.
	snapshots *types.VirtualMachineSnapshotInfo
}

// sourceKey identifies a source. A template with another fingerprint has other disks, and perhaps other snapshots.
type sourceKey struct {
	ref         types.ManagedObjectReference
	fingerprint string
}

// cores returns the cores per socket to set in a clone: nil if the source's divide the number of CPUs, because
// then they are inherited; otherwise the most that divide both. vCenter refuses a number of CPUs that is no multiple of
// the cores per socket (VirtualMachineConfigSpec.numCoresPerSocket), and a template's may not fit the group's cpu.
func (x *source) cores(cpu int32) *int32 { return dividing(x.perSocket, cpu) }

// dividing returns the most cores per socket that divide both numbers; nil if perSocket already does, or is unknown.
func dividing(perSocket, cpu int32) *int32 {
	if perSocket < 1 || cpu%perSocket == 0 {
		return nil
	}
	for perSocket > 0 {
		cpu, perSocket = perSocket, cpu%perSocket
	}
	return &cpu
}

const (
	// vAppPath is the property that HasVAppProperties looks at.
	vAppPath = "config.vAppConfig"
	// autoCoresPath reports whether vCenter chooses the cores per socket, as it does until they are set (inventory.Machine.AutoCores).
	autoCoresPath = "config.hardware.autoCoresPerSocket"
)

// HasVAppProperties reports whether the guest of a VM, whose config.vAppConfig was read, finds an OVF environment.
func HasVAppProperties(o session.Object) bool {
	c := session.Prop[types.VmConfigInfo](o, vAppPath)
	return len(c.Property) > 0 || len(c.OvfEnvironmentTransport) > 0
}

// nics are the network adapters.
func (x *source) nics() []types.BaseVirtualDevice { return NICsIn(x.devices) }

// hasTPM reports whether there is a virtual TPM. Its secrets are the template's: vCenter copies them to each clone unless the clone asks
// for a new one (vim25, tpmProvisionPolicy; a recorded 8.0.1 has vpxd.clone.tpmProvisionPolicy = copy).
func (x *source) hasTPM() bool { return HasTPM(x.devices) }

// HasTPM reports whether there is a virtual TPM among devices.
func HasTPM(devices []types.BaseVirtualDevice) bool {
	return slices.ContainsFunc(devices, func(d types.BaseVirtualDevice) bool { _, is := d.(*types.VirtualTPM); return is })
}

// disks are the virtual disks.
func (x *source) disks() []*types.VirtualDisk { return disks.In(x.devices) }

// readSource reads a template, or a snapshot of one, which has the same config ([doc] VirtualMachineSnapshot.config).
func readSource(ctx context.Context, s *session.Session, ref types.ManagedObjectReference) (*source, error) {
	paths := []string{"config.hardware.numCoresPerSocket", autoCoresPath, "config.hardware.device", "config.files.vmPathName", vAppPath}
	if ref.Type == session.VMType {
		paths = append(paths, "snapshot")
	}
	o, err := session.ReadProps(ctx, s, ref, paths...)
	if err != nil {
		return nil, err
	}
	x := &source{
		perSocket: session.Prop[int32](o, "config.hardware.numCoresPerSocket"),
		devices:   session.Prop[types.ArrayOfVirtualDevice](o, "config.hardware.device").VirtualDevice,
		vApp:      HasVAppProperties(o),
		file:      session.Prop[string](o, "config.files.vmPathName"),
	}
	if session.Prop[bool](o, autoCoresPath) {
		x.perSocket = 0
	}
	if snapshots, has := session.LookUp[types.VirtualMachineSnapshotInfo](o, "snapshot"); has {
		x.snapshots = &snapshots
	}
	return x, nil
}
