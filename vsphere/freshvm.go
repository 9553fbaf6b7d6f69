package vsphere

import (
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// FreshVM is the state that is checked right before a step changes a VM; zero if vCenter tells nothing of it.
type FreshVM struct {
	Stamp, InstanceUUID, ChangeVersion, File string
	Power                                    types.VirtualMachinePowerState
	Devices                                  []types.BaseVirtualDevice
	// Hardware is its virtual hardware version, "vmx-19".
	Hardware string
	// Tracks reports whether changed block tracking is on, Snapshots whether it has some.
	Tracks, Snapshots bool
}

func (x *FreshVM) take(o session.Object) {
	x.InstanceUUID = session.Prop[string](o, "config.instanceUuid")
	x.ChangeVersion = session.Prop[string](o, "config.changeVersion")
	x.File = session.Prop[string](o, "config.files.vmPathName")
	x.Hardware = session.Prop[string](o, "config.version")
	x.Tracks = session.Prop[bool](o, "config.changeTrackingEnabled")
	x.Devices = session.Prop[types.ArrayOfVirtualDevice](o, "config.hardware.device").VirtualDevice
	x.Power = session.Prop[types.VirtualMachinePowerState](o, "runtime.powerState")
	x.Snapshots = len(session.Prop[types.ArrayOfManagedObjectReference](o, "rootSnapshot").ManagedObjectReference) > 0
	x.Stamp, _ = session.Only[types.OptionValue](o).Value.(string)
}

// ForeignDisks returns the disks that neither the VM's clone nor the spec gave it.
func (x *FreshVM) ForeignDisks() []*types.VirtualDisk {
	has, _ := stamp.Read(x.Stamp, x.InstanceUUID, true)
	return disks.Foreign(x.Devices, x.File, disks.Own(has.Disks, plan.DisksIn(has.Given), x.Devices))
}
